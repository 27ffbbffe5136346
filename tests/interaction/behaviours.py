"""The table: what a call does, the same through every door (SPEC E, X, P).

A row says what is called and what has to come back. A cell that can't exist gives its reason in `missing`.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from handspan.core.errors import ERROR_TYPES
from handspan.core.values import Json
from tests.interaction.doors import Asked, OpenDoor
from tests.interaction.doors.agui import open_agui
from tests.interaction.doors.cli import open_cli
from tests.interaction.doors.engine import open_engine
from tests.interaction.doors.graph import open_graph
from tests.interaction.doors.mcp import open_mcp
from tests.interaction.doors.rest import open_rest
from tests.interaction.doors.ws import open_ws
from tests.interaction.tools import TOGETHER

DOORS: Final[dict[str, OpenDoor]] = {
    "engine": open_engine,
    "rest": open_rest,
    "ws": open_ws,
    "graph": open_graph,
    "agui": open_agui,
    "mcp": open_mcp,
    "cli": open_cli,
}


class Behaviour(NamedTuple):
    """One row."""

    calls: Sequence[Asked]
    expected: Sequence[Mapping[str, Json]]
    """For each call the fields that its envelope has to have; `message` is a part of it."""
    missing: Mapping[str, str] = {}
    """Why the behaviour can't be at a door, by the door's name."""
    is_hasty: bool = False
    """Whether it is looked at where questions stay open for a moment only."""


def succeeds(value: Json, tool: str, arguments: Mapping[str, Json] | None = None, **more: Json) -> Behaviour:
    return Behaviour([Asked(tool, arguments or {})], [{"status": "success", "result": value, **more}])


def fails(code: str, message: str, asked: Asked) -> Behaviour:
    expected = {"status": "error", "code": code, "error_type": _TYPES[code], "message": message}
    return Behaviour([asked], [expected])


_TYPES: Final[Mapping[str, str]] = {str(code): error_type for code, error_type in ERROR_TYPES.items()}
_CLI_HAS_NOBODY: Final = {"cli": "without a terminal there is no person who says no: the command refuses, and says why"}

BEHAVIOURS: Final[dict[str, Behaviour]] = {
    # What a tool gives comes as it is.
    "an object": succeeds({"a": [1, 2.5, True, None, "é"]}, "give", {"value": {"a": [1, 2.5, True, None, "é"]}}),
    "a text": succeeds("two\nlines ☕", "give", {"value": "two\nlines ☕"}),
    "an empty text": succeeds("", "give", {"value": ""}),
    "null": succeeds(None, "give"),
    "a number": succeeds(0, "give", {"value": 0}),
    "false": succeeds(value=False, tool="give", arguments={"value": False}),
    "a text that looks like JSON": succeeds('{"a": 1}', "give", {"value": '{"a": 1}'}),
    "an image is told, and its bytes are not in the text": succeeds(
        "a pixel", "give_image", attachments=[{"kind": "image", "media_type": "image/png", "bytes": 8}]
    ),
    # What can't be called.
    "an unknown tool": fails("tool_not_found", "'no_such_tool'", Asked("no_such_tool")),
    "a tool that the agent may not use": fails("tool_not_available", "'change'", Asked("change", agent="Narrow")),
    "a tool that is off": fails("tool_disabled", "'switched_off'", Asked("switched_off")),
    "a tool of an origin that is off": fails("tool_disabled", "'of_dark_origin'", Asked("of_dark_origin")),
    "a missing argument": fails("invalid_arguments", "'code'", Asked("fail_with")),
    "an argument of the wrong type": fails("invalid_arguments", "length", Asked("give_text", {"length": "long"})),
    "an argument that nobody has": fails(
        "invalid_arguments", "'colour'", Asked("give_path", {"path": "a", "colour": 1})
    ),
    # What is read as it was meant.
    "a number that comes as text": succeeds("0123456789abcde\n", "give_text", {"length": "16"}),
    "null for an optional argument": succeeds("low", "choose", {"level": None}),
    "a word in other upper and lower case": succeeds("high", "choose", {"level": "HIGH"}),
    # What the built-ins refuse.
    "a path out of the workspace": fails("invalid_path", "../a", Asked("read_file", {"path": "../a"})),
    "a file that is not there": fails(
        "file_not_found", "File not found: none.txt", Asked("read_file", {"path": "none.txt"})
    ),
    "a file that is too large": fails(
        "file_too_large", "huge.txt", Asked("edit_file", {"path": "huge.txt", "old_text": "a", "new_text": "b"})
    ),
    "a server that is not there": fails("network_error", "", Asked("http_request", {"url": "http://127.0.0.1:1/"})),
    # What rules refuse or change.
    "a change by an agent that only reads": fails("policy_denied", "read-only", Asked("change", agent="Reader")),
    "a call that a hook cancels": fails("hook_cancelled", "0 calls a minute", Asked("cancelled_by_hook")),
    "a call that a hook changes": succeeds("below/a.txt", "give_path", {"path": "a.txt"}),
    # What persons say.
    "approved": Behaviour([Asked("give", {"value": 1}, "Careful", True)], [{"status": "success", "result": 1}]),
    "not approved": fails("approval_denied", "", Asked("change", agent="Careful"))._replace(missing=_CLI_HAS_NOBODY),
    "a permission that is granted": Behaviour(
        [Asked("listen", allowed=True)], [{"status": "success", "result": "a sound"}]
    ),
    "a permission that is denied": fails(
        "permission_denied", "Permission 'camera' was denied by the user", Asked("photograph")
    )._replace(missing=_CLI_HAS_NOBODY),
    "approval that nobody gives": fails("question_expired", "", Asked("change", agent="Careful"))._replace(
        missing=_CLI_HAS_NOBODY, is_hasty=True
    ),
    # Tools elsewhere.
    "a tool of a device": succeeds({"a": [1]}, "phone__give_back", {"a": [1]}),
    "a device that refuses": fails("rate_limited", "Not so often.", Asked("phone__refuse")),
    # What goes wrong while it runs.
    "an exception": fails("execution_failed", "one by zero", Asked("fall_over")),
    "a tool that takes too long": fails("timeout", "0.05", Asked("take_long")),
    # A tool may fail with every code there is, and each door keeps it.
    **{
        f"a tool that fails with {code}": fails(code, f"It failed with {code}.", Asked("fail_with", {"code": code}))
        for code in ERROR_TYPES
    },
    # Several calls.
    "calls that run at once, in their order": Behaviour(
        [Asked("meet", {"number": number}) for number in range(TOGETHER)],
        [{"status": "success", "result": number} for number in range(TOGETHER)],
        {"cli": "a batch runs line after line: a later line may need what an earlier one did"},
    ),
    "results in the order of the calls, good and bad": Behaviour(
        [Asked("give", {"value": 1}), Asked("fall_over"), Asked("no_such_tool"), Asked("give", {"value": 2})],
        [{"result": 1}, {"code": "execution_failed"}, {"code": "tool_not_found"}, {"result": 2}],
    ),
}

CAN_NOT_STOP: Final = {
    "rest": "a client that goes away does not stop its call: it asks for the result later",
    "cli": "a command that is stopped goes away, and at the gateway that does not stop its call",
}
"""The doors where a caller can't stop one call that runs, and why."""
