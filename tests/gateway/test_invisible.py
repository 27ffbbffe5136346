"""Text from outside has no invisible characters at any door where a person reads it (SPEC S4)."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.client import Client
from handspan.core.context import ToolContext
from handspan.core.events import CallFinished, CallProgress, QuestionAsked
from handspan.core.principals import Origin
from handspan.core.results import encode_envelope, succeed
from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import escape_invisible, strip_all
from handspan.gateway.clients.chat_frames import output_of
from tests.gateway.graph.pages import graph_gateway

pytestmark = pytest.mark.anyio

HIDDEN = "in\u202evisi\u200bble\x1b[31m\U000e0041"
SHOWN = "invisible[31m"
PLUGIN = Origin("plugin", "outside")


class Hiding:
    """A tool whose texts all hide something."""

    spec = ToolSpec("hiding", "Hides.", {"type": "object"}, annotations=READ_ONLY)

    async def run(self, arguments: Any, ctx: ToolContext) -> Any:
        ctx.progress({"text": HIDDEN})
        if "ask" in arguments:
            await ctx.ask("input", HIDDEN, schema={"type": "string"})
        return {HIDDEN: [HIDDEN]}


def test_a_result_for_chat_clients_has_none() -> None:
    assert output_of(encode_envelope(succeed(HIDDEN)).decode()) == SHOWN
    shown = msgspec.json.decode(output_of(encode_envelope(succeed({"a": HIDDEN})).decode()))
    assert shown == {"a": "invisible\x1b[31m"}  # JSON itself writes a control character as an escape


def test_json_for_people_shows_them_and_stays_the_same_value() -> None:
    written = escape_invisible(msgspec.json.encode({"a": HIDDEN}).decode())
    assert written == r'{"a":"in\u202evisi\u200bble\u001b[31m\udb40\udc41"}'
    assert msgspec.json.decode(written) == {"a": HIDDEN}
    assert strip_all({HIDDEN: [HIDDEN, 1, None]}) == {SHOWN: [SHOWN, 1, None]}


async def test_watchers_of_a_turn_and_pages_get_none(tmp_path: Path) -> None:
    async with graph_gateway(tmp_path) as there, asyncio.timeout(60):
        there.gateway.gateway.parts.app.registry.register(Hiding(), PLUGIN)
        said = await there.page.say("call hiding\nthen\nend", "t")
        [block] = [block for message in said.messages for block in message["content"] if block["type"] == "tool_result"]
        assert block["output"] == {SHOWN: [SHOWN]}
        async with Client(there.gateway.url, there.gateway.token).chat() as chat:
            events = [
                event async for event in chat.send('call hiding {"ask": 1}\nthen\nend') if await _answer(chat, event)
            ]
    [finished] = [event for event in events if isinstance(event, CallFinished)]
    assert strip_all(finished.envelope) == finished.envelope
    assert [event.value for event in events if isinstance(event, CallProgress)] == [{"text": SHOWN}]
    assert [event.question.subject for event in events if isinstance(event, QuestionAsked)] == [SHOWN]


async def _answer(chat: Any, event: object) -> bool:
    if isinstance(event, QuestionAsked):
        await chat.answer(event.question.id, "allow", value="x")
    return True
