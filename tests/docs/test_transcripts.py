"""The transcripts in the protocol's pages: one a section, and every frame and body in them is as the schemas say."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from handspan.core.schema import Validator
from handspan.wire.ws import FrameError, decode_client, decode_server
from tests.docs.repository import ROOT

PROTOCOL: Final = ROOT / "protocol"
LEFT_OUT: Final = "…"
REQUESTS: Final = {
    "POST /v1/graph/setup": "setup",
    "POST /v1/graph/invoke": "invoke",
    "POST /v1/graph/stream": "invoke",
    "POST /v1/graph/stop": "stop",
    "POST /v1/store/memories": "store_memory",
    "POST /v1/store/search": "search_memories",
}
ANSWERS: Final = {
    "POST /v1/graph/setup": "setup",
    "POST /v1/graph/invoke": "invoke",
    "POST /v1/graph/stop": "stop",
    "POST /v1/store/memories": "memory_stored",
    "POST /v1/store/search": "memories_found",
    "GET /v1/threads": "threads",
    "GET /v1/threads/t1/state": "state",
    "GET /v1/threads/t1/messages": "messages",
}


class Line(NamedTuple):
    """One line of a transcript: `>`, `>!`, `<` or `#`, and what follows it."""

    mark: str
    text: str


def sections(page: str) -> dict[str, str]:
    """The text of each numbered section by its headline."""
    parts = re.split(r"^## (\d.*)$", (PROTOCOL / page).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def transcript(text: str) -> list[Line]:
    """The lines of a section's transcripts; it has one at least."""
    blocks = re.findall(r"^```transcript\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    return [Line(*line.split(" ", 1)) for block in blocks for line in block.splitlines()]


WS: Final = sections("ws.md")
GRAPH: Final = sections("graph.md")


@pytest.mark.parametrize("section", WS)
def test_every_frame_of_a_transcript_is_one_of_the_protocol(section: str) -> None:
    for mark, text in transcript(WS[section]):
        if mark == ">":
            decode_client(text)
        if mark == ">!":
            with pytest.raises(FrameError):
                decode_client(text)
        if mark == "<":
            assert decode_server(text) is not None, text
        if mark in ("<", ">"):
            frame = shortened(json.loads(text))
            check(frame, f"{'client' if mark == '>' else 'server'}/{frame['type']}")


@pytest.mark.parametrize("section", GRAPH)
def test_every_body_of_a_transcript_is_one_of_the_graph_api(section: str) -> None:
    for route, status, body in exchanges(transcript(GRAPH[section])):
        if status is None:
            check(body, f"graph/request/{REQUESTS[route]}")
        elif status >= 400:
            check(body, "graph/answer/failure")
        elif route == "POST /v1/graph/stream":
            check(body, "graph/answer/chunk")
        elif route in ANSWERS:
            check({"data": None, "metadata": body["metadata"]}, "graph/answer/success")
            check(body["data"], f"graph/answer/{ANSWERS[route]}")
        else:
            assert route == "GET /ping", f"Name the schema of the answers of {route!r} in ANSWERS."


def exchanges(lines: list[Line]) -> Iterator[tuple[str, int | None, Any]]:
    """Each body with its route; with a status if it is an answer. Requests that are wrong on purpose are left out."""
    route = ""
    for mark, text in lines:
        if mark in (">", ">!"):
            method, path, *body = text.split(" ", 2)
            route = f"{method} {path.partition('?')[0]}"
            if body and mark == ">":
                yield route, None, shortened(json.loads(body[0]))
        elif mark == "<":
            status, answer = text.split(" ", 1)
            yield route, int(status), shortened(json.loads(answer))


def check(value: Any, name: str) -> None:
    """Fail when a value has fields that its schema does not know, or fields of another kind."""
    schema = json.loads((PROTOCOL / "schema" / f"{name}.json").read_text(encoding="utf-8"))
    assert Validator(closed(schema)).problems(value) == [], f"{name}: {value}"


def shortened(value: Any) -> Any:
    """The value without the marks for fields that are left out."""
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items() if key != LEFT_OUT}
    return [shortened(item) for item in value] if isinstance(value, list) else value


def closed(schema: Any) -> Any:
    """The schema with no field required, since transcripts are cut, and none allowed that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: closed(item) for key, item in schema.items() if not (key == "required" and isinstance(item, list))}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        kept.setdefault("additionalProperties", False)
    return kept
