"""A model server with a window: it counts what it is sent, calls tools, says what it was asked, and keeps records."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from handspan.core.messages import Api
from tests.models.fake_replies import Call, Turn
from tests.models.fake_server import FakeModelServer

WINDOW = 16_000
OF_IMAGE = {"openai-chat": 765, "openai-responses": 765, "anthropic": 600, "gemini": 258}
PLANTED = ("48151623", "/srv/garden/plan-7.toml", "paint the fence blue")
_SECTIONS = ("Goal", "Decisions", "Facts", "Done", "Open")


def texts_of(value: Any) -> Iterator[str]:
    """Every text of a body, without the data of images."""
    match value:
        case str():
            yield value
        case dict():
            if not {"inlineData", "image_url", "source"} & value.keys():
                for inner in value.values():
                    yield from texts_of(inner)
        case list():
            for inner in value:
                yield from texts_of(inner)


class Clerk(FakeModelServer):
    """It answers every request by what is asked in it. `counts` and `records` hold what it has seen and summarised."""

    def __init__(self, api: Api) -> None:
        super().__init__([])
        self._api = api
        self._turn = Turn()
        self.said: list[str] = []
        """The texts of its answers, without records."""
        self.counts: list[int] = []
        self.records: list[tuple[str, str]] = []
        """Each request for a record, and the record."""
        self.bodies: list[dict[str, Any]] = []

    async def __aenter__(self) -> "Clerk":
        await super().__aenter__()
        return self

    def count(self, body: dict[str, Any]) -> int:
        """The tokens of a request, as this API counts them."""
        images = msgspec.json.encode(body).count(b"iVBORw0KGgo")
        return sum(len(text) for text in texts_of(body)) * 10 // 36 + OF_IMAGE[self._api] * images

    def refusal(self, api: Api, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, str]:
        found = super().refusal(api, headers, body)
        if found[0] == 200:
            self._turn = self._answer(body)
            self.bodies.append(body)
        return found

    def next_turn(self) -> Turn:
        return self._turn

    def _answer(self, body: dict[str, Any]) -> Turn:
        count = self.count(body)
        self.counts.append(count)
        if count > WINDOW:
            return Turn(fault="too_long")
        last = list(texts_of(_items(body)[-1]))
        asked = next((text for text in last if "Write the record of these" in text), None)
        if asked is not None:
            record = _record(asked)
            self.records.append((asked, record))
            return Turn(record, input=count, output=len(record) // 4)
        words = " ".join(last)
        if found := re.search(r"\bcall (look|read)\b", words):
            return Turn(calls=(Call(found[1]),), input=count, output=20)
        text = f"Answer {len(self.said)}: " + "so be it " * 12
        self.said.append(text)
        return Turn(text, input=count, output=len(text) // 4)


def _items(body: dict[str, Any]) -> list[Any]:
    items: list[Any] = body.get("messages") or body.get("input") or body["contents"]
    return items


def _record(asked: str) -> str:
    """A record that keeps what was planted, wherever it stands in the request."""
    number, path, decision = (each if each in asked else "" for each in PLANTED)
    lines = {
        "Goal": "look after the garden",
        "Decisions": f"the person said: {decision}" if decision else "none",
        "Facts": f"the number is {number}\n- the plan is {path}" if number or path else "none",
        "Done": f"{len(re.findall('person', asked))} messages were answered",
    }
    return "\n".join(f"# {name}\n- {lines.get(name, 'none')}" for name in _SECTIONS)
