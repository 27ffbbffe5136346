"""Every case of `protocol/vectors/cetp/`, as `wire/cetp.py` and `wire/cetp_manifest.py` read it."""

import json
from typing import Any

import msgspec
import pytest

from handspan.core.errors import WireError
from handspan.core.schema import Validator
from handspan.core.values import encode
from handspan.wire.cetp import (
    ERROR_CODES,
    EXECUTE_TOOL,
    CetpError,
    CetpRequest,
    CetpSuccess,
    ProviderError,
    execute_request,
    label_of,
    read_data,
    read_extras,
    read_info,
    read_request,
    read_response,
    read_tools,
    success,
)
from handspan.wire.cetp_manifest import read_manifest, socket_path
from tests.vectors.cases import PROTOCOL, Case, cases

CASES = dict(cases("cetp"))
CLAUSES = (PROTOCOL / "cetp.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_case_is_read_as_it_says(case: Case) -> None:
    for step in case.steps:
        play(step)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_case_names_clauses_that_exist(case: Case) -> None:
    assert case.clauses
    for clause in case.clauses:
        assert f"\n{clause} " in CLAUSES


def play(step: dict[str, Any]) -> None:
    """Do one step."""
    match step:
        case {"request": request}:
            play_request(step, as_text(request))
        case {"response": response}:
            play_response(step, as_text(response))
        case {"tools": data}:
            play_tools(step, as_text(data))
        case {"info": data}:
            play_info(step, as_text(data))
        case {"manifest": manifest}:
            play_manifest(step, as_text(manifest))
        case {"label": name, "is": label}:
            assert label_of(name) == label
        case _:
            raise AssertionError(f"an unknown step: {step}")


def as_text(value: Any) -> str:
    """The value as JSON; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value)


def play_request(step: dict[str, Any], text: str) -> None:
    if "refused" in step:
        with pytest.raises(WireError):
            read_request(text.encode())
        return
    request = read_request(text.encode())
    assert problems("request", step["request"]) == []
    if "answers" in step:
        with pytest.raises(ProviderError) as caught:
            read_extras(request.extras)
        assert caught.value.answer.error_code == step["answers"]
        assert step["says"] in caught.value.answer.error_message
        return
    call = msgspec.to_builtins(read_extras(request.extras)) if request.method == EXECUTE_TOOL else {}
    assert {"method": request.method, **call} == step["reads"]


def play_response(step: dict[str, Any], text: str) -> None:
    response = read_response(text)
    if "value" in step:
        assert isinstance(response, CetpSuccess)
        assert read_data(response.data) == step["value"]
        return
    assert isinstance(response, CetpError)
    assert response.error_code == step["error"]
    assert response.text == step.get("text", response.text)
    assert ERROR_CODES[response.error_code] == step.get("code", ERROR_CODES[response.error_code])
    assert response.authorize_intent == step.get("intent", response.authorize_intent)
    assert not response.is_unanswered


def play_tools(step: dict[str, Any], text: str) -> None:
    if "fails" in step:
        with pytest.raises(WireError):
            read_tools(text)
        return
    found = read_tools(text)
    shown = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "only_reads": tool.only_reads,
        }
        for tool in found.tools
    ]
    assert shown == step["reads"]
    assert [tool.name for tool in found.left_out] == step.get("left_out", [])
    assert all(tool.reason for tool in found.left_out)


def play_info(step: dict[str, Any], text: str) -> None:
    if "fails" in step:
        with pytest.raises(WireError):
            read_info(text)
        return
    assert msgspec.json.decode(msgspec.json.encode(read_info(text))) == step["reads"]


def play_manifest(step: dict[str, Any], text: str) -> None:
    environment = {"XDG_RUNTIME_DIR": "/run/user/7"}
    if "fails" in step:
        with pytest.raises(WireError):
            socket_path(read_manifest(text.encode()), environment)
        return
    manifest = read_manifest(text.encode())
    assert problems("manifest", step["manifest"]) == []
    assert step["reads"] == {
        "id": manifest.id,
        "name": manifest.name,
        "prefix": manifest.prefix,
        "version": manifest.version,
        "is_supported": manifest.is_supported,
        "socket": str(socket_path(manifest, environment)),
        "exec": manifest.exec,
        "authorize": manifest.authorize,
    }


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("request", CetpRequest("list_tools")),
        ("request", execute_request("get_data", {"limit": 5}, "r1")),
        ("success", success({"total": 3})),
        ("error", CetpError("AUTH_REQUIRED", "Not allowed yet", "Open the app", "org.example.ALLOW")),
    ],
)
def test_what_is_sent_is_valid_by_its_schema(schema: str, message: CetpRequest | CetpSuccess | CetpError) -> None:
    assert problems(schema, json.loads(encode(message))) == []


def problems(name: str, value: Any) -> list[str]:
    """What is wrong with a value by a schema of `protocol/schema/cetp/`."""
    schema = json.loads((PROTOCOL / "schema" / "cetp" / f"{name}.json").read_text(encoding="utf-8"))
    return Validator(schema).problems(value)
