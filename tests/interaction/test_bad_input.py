"""Bad input gets one clear error: from every tool, through the whole engine (SPEC B, E2, X2)."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from handspan.config.load import load_settings
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.errors import ERROR_TYPES
from handspan.core.results import Failure, Success, encode_envelope
from handspan.core.values import Json
from handspan.gateway.app import App

pytestmark = pytest.mark.anyio

TOOLS = [
    *("edit_file", "exec_shell", "get_current_time", "http_request", "list_directory", "memory_read", "memory_write"),
    *(
        "ask_user",
        "find_files",
        "search_files",
        "read_artifact",
        "read_file",
        "spawn",
        "web_fetch",
        "web_search",
        "write_file",
    ),
]

HUGE = "x" * 10_000_000
DEEP = "[" * 100_000 + "]" * 100_000

NOT_ARGUMENTS = {
    "nothing but a word": b"nonsense",
    "a list": b"[1, 2]",
    "a number": b"12",
    "null": b"null",
    "half an object": b'{"path": "a',
    "a doubled key": b'{"path": "a", "path": "b"}',
    "a number that is none": b'{"path": NaN}',
    "bytes that are no text": b'{"path": "\xff\xfe"}',
    "half a character": rb'{"path": "\ud800"}',
    "nesting without end": f'{{"path": {DEEP}}}'.encode(),
    "a parameter that nobody has": b'{"no_such_parameter": 1}',
}

SMALL_TYPES: list[Json] = [None, True, 3, 2.5, [], {}, ["a"], {"a": 1}]


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    chosen: dict[str, Json] = {
        "workspace": str(tmp_path / "ws"),
        "state": str(tmp_path / "st"),
        "tools.web_search.endpoint": "http://127.0.0.1:9/",
        "tools.question_timeout": 0.1,
    }
    async with App(load_settings(None, {"HOME": str(tmp_path)}, chosen)) as app:
        yield app


async def call(app: App, tool: str, raw: bytes) -> Success | Failure:
    result = await app.engine.call(ToolCall(tool, raw, new_call_id()), app.caller())
    assert isinstance(result, Success | Failure)
    return result


@pytest.mark.parametrize("tool", TOOLS)
async def test_bad_arguments_get_one_clear_error_from_every_tool(app: App, tool: str) -> None:
    for what, raw in NOT_ARGUMENTS.items():
        result = await call(app, tool, raw)
        assert isinstance(result, Failure), what
        assert result.code == "invalid_arguments", what
        assert len(result.message) < 5000 and "Traceback" not in result.message, what


@pytest.mark.parametrize("tool", TOOLS)
async def test_values_of_the_wrong_type_are_refused_with_the_name_of_the_parameter(app: App, tool: str) -> None:
    entry = app.caller().box.find(tool)
    assert entry is not None
    properties = entry.spec.parameters["properties"]
    assert isinstance(properties, dict)
    for name in properties:
        for value in SMALL_TYPES:
            if not entry.validator.problems({name: value}):
                continue  # it fits, as far as it goes
            if value is None and not entry.validator.problems({}):
                continue  # SPEC A6: null for an optional parameter is left out
            result = await call(app, tool, msgspec.json.encode({name: value}))
            assert isinstance(result, Failure) and result.code == "invalid_arguments"
            assert name in result.message or "missing required" in result.message


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("text", ["", " ", "\x00", "\n", "‮​", "💥", HUGE], ids=lambda text: f"{text[:4]!r}")
async def test_odd_text_in_every_parameter_gets_a_result_and_breaks_nothing(app: App, tool: str, text: str) -> None:
    entry = app.caller().box.find(tool)
    assert entry is not None
    properties = entry.spec.parameters["properties"]
    assert isinstance(properties, dict)
    arguments = {
        name: text for name, schema in properties.items() if isinstance(schema, dict) and schema.get("type") == "string"
    }
    result = await call(app, tool, msgspec.json.encode(arguments))
    envelope = msgspec.json.decode(encode_envelope(result))
    assert envelope["status"] in ("success", "error")
    if isinstance(result, Failure):
        assert result.code in ERROR_TYPES and result.code != "internal_error"
        assert len(result.message) < 70_000 and "Traceback" not in result.message
    again = await call(app, "get_current_time", b"{}")
    assert isinstance(again, Success)


async def test_a_workspace_that_vanishes_is_told(app: App) -> None:
    app.settings.workspace.rmdir()
    for tool, raw in (("read_file", b'{"path": "a"}'), ("write_file", b'{"path": "a", "content": "x"}')):
        result = await call(app, tool, raw)
        assert isinstance(result, Failure) and result.code in ("file_not_found", "execution_failed")
