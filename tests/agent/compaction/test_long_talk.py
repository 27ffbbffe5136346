"""A talk of 600 turns with tools and images over each API, with a model that reads 16,000 tokens (SPEC L1, M4)."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.core.agents import Agent
from handspan.core.events import Compacted
from handspan.core.function_tool import tool
from handspan.core.messages import Api, AssistantMessage, Media, Message, ResultsMessage, Text, UserMessage
from handspan.core.principals import OPERATOR, Origin
from handspan.core.results import Attachment, Success
from handspan.core.tool import ToolSpec
from handspan.core.values import encode
from tests.agent.compaction.long_clerk import PLANTED, WINDOW, Clerk
from tests.models.conversations import APIS, MODELS, PIXEL, model_at
from tests.store.long_talks import long_talk, text_of
from tests.thoroughness import IS_DEEP
from tests.waiting import soon

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

TURNS = 600 if IS_DEEP else 60
PICTURE = Attachment("image", "image/png", PIXEL, name="fence.png")
PAGE = "The garden page says a lot about roses and beds. " * 60


class Look:
    """A tool whose result is an image."""

    spec = ToolSpec("look", "Take a photo.", {"type": "object", "properties": {}})

    async def run(self, arguments: Any, ctx: Any) -> Success:
        return Success("a photo", (PICTURE,))


@tool
def read() -> str:
    """Read the page."""
    return PAGE


def said_in(turn: int) -> UserMessage:
    """What the person says in this turn: every third one leads to a call, some results and messages are images."""
    text = f"Turn {turn}: tell me more about it, please. " + "And mind the roses. " * 80
    if turn == 3:
        text += f"The number is {PLANTED[0]}, the plan is {PLANTED[1]}, and we {PLANTED[2]}."
    if turn % 3 == 0:
        text += " call read" if turn % 12 else " call look"
    parts: list[Text | Media] = [Text(text)]
    if turn % 20 == 0:
        parts.append(Media(PICTURE))
    return UserMessage(tuple(parts))


def check_types(api: Api, body: dict[str, Any]) -> None:
    """Judge a request by the types of the vendor's SDK."""
    if api == "gemini":
        types = pytest.importorskip("google.genai.types")
        for content in body["contents"]:
            types.Content.model_validate_json(msgspec.json.encode(content))
        return
    pydantic = pytest.importorskip("pydantic")
    if api == "anthropic":
        wanted: Any = pytest.importorskip("anthropic.types").MessageParam
        items = body["messages"]
    elif api == "openai-chat":
        wanted, items = pytest.importorskip("openai.types.chat").ChatCompletionMessageParam, body["messages"]
    else:
        wanted, items = pytest.importorskip("openai.types.responses").ResponseInputItemParam, body["input"]
    if api not in _ADAPTERS:  # to make one takes seconds
        _ADAPTERS[api] = pydantic.TypeAdapter(list[wanted])
    checked = _ADAPTERS[api].validate_python(items)
    assert len(list(checked)) == len(items)


_ADAPTERS: dict[str, Any] = {}


@pytest.mark.flood
@pytest.mark.timeout(3000)  # each image is read in a process of its own, and all are after each move
@pytest.mark.parametrize("api", APIS)
async def test_a_talk_of_many_turns_with_tools_and_images_runs_to_its_end(api: Api, tmp_path: Path) -> None:
    agent = Agent("Gardener", instructions="Look after the garden.", tools=("look", "read", "read_artifact"))
    begun: list[bytes] = []
    async with Clerk(api) as server:
        model = model_at(server, api, stream=False)
        async with long_talk(tmp_path / "st", model, agent, context=WINDOW) as talk:
            for each in (Look(), read):
                talk.app.registry.register(each, Origin("plugin", "garden"))
            for turn in range(1, TURNS + 1):
                handle = talk.session.say(OPERATOR, said_in(turn), lambda event, _: talk.heard.append(event))
                ended = await soon(handle.wait_for_end())
                assert ended.reason == "done", (turn, ended)
                if turn % 50 == 0:
                    begun.append(b"".join(map(encode, await talk.history())))
            history = await talk.history()
        await model.close()
    moves = [event for event in talk.heard if isinstance(event, Compacted)]
    assert not [asked.refused for asked in server.asked if asked.refused]
    assert max(server.counts) < WINDOW, "every request is below the window"
    assert len(moves) >= TURNS // 60 and all(not event.note for event in moves)
    check_requests(api, server)
    check_records(server)
    check_history(history, server, begun)


def check_requests(api: Api, server: Clerk) -> None:
    """Every request is valid by the types, and between two moves one begins with the one before."""
    for place, body in enumerate(server.bodies):
        if IS_DEEP or place % 5 == 0:
            check_types(api, body)
    assert all(body["model"] == MODELS[api] for body in server.bodies if api != "gemini")


def check_records(server: Clerk) -> None:
    """What was planted in turn 3 is in every record made of that turn, or of a record that has it."""
    assert len(server.records) >= 2
    for asked, record in server.records:
        assert all(fact in asked and fact in record for fact in PLANTED)


def check_history(history: list[Message], server: Clerk, begun: list[bytes]) -> None:
    """The history is what was said, byte for byte."""
    whole = b"".join(map(encode, history))
    assert begun and all(whole.startswith(part) for part in begun)
    persons = [message for message in history if isinstance(message, UserMessage)]
    assert [message.parts for message in persons] == [said_in(turn).parts for turn in range(1, TURNS + 1)]
    answers = [message for message in history if isinstance(message, AssistantMessage)]
    assert [text_of(message) for message in answers if not message.calls] == server.said
    results = [one for message in history if isinstance(message, ResultsMessage) for one in message.results]
    assert len(results) == TURNS // 3
    for result in results:
        assert (PAGE in result.envelope) if result.name == "read" else result.attachments == (PICTURE,)
