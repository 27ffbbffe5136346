"""A gateway and the real `openai` client, over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai

from handspan.core.context import ToolContext
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Message, Text, Usage
from handspan.core.principals import OPERATOR, Origin
from handspan.core.tool import Annotations, ToolSpec
from handspan.core.values import Arguments
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import Model, ModelEvent, Projection, Replied, TextDelta
from handspan.models.scripted import Scripted, ScriptedReply
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.spoken import Spoken

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
ASK_WEATHER = 'call get_weather {"city": "Rome"}\nthen\nIt is {results}'
NO_MONEY: Any = {
    "models": {
        "priced": {"api": "custom", "base_url": "http://127.0.0.1:9/v1", "price": {"input": 1e3, "output": 1e3}}
    },
    "agents": {"General": {"tools": [], "instructions": "Be brief."}},
    "budget": {"day": 0.2},
}
"""Settings of a gateway whose model, `paid_model()`, costs more than its budget allows."""
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DOT = f"data:image/png;base64,{_PNG}"
"""A picture of one point."""


def user(text: str) -> Any:
    """A person's message."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Any:
    """What a client says that the model has said."""
    return {"role": "assistant", "content": text}


def result(call_id: str, text: str) -> Any:
    """What a client's tool has answered."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def paid_model() -> Scripted:
    """The model of the settings `NO_MONEY`."""
    return Scripted([ScriptedReply(("Paid.",), Usage(300, 200))], name="priced")


class Slow:
    """A model that says a word, waits until it may go on, and then says what it is asked last."""

    name = "slow"

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.was_stopped = asyncio.Event()
        self.requests = 0

    def projection(self, instructions: str = "") -> KeptMessages:
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        self.requests += 1
        yield TextDelta("Well, ")
        self.has_begun.set()
        try:
            await self.may_go_on.wait()
        except asyncio.CancelledError:
            self.was_stopped.set()
            raise
        yield TextDelta("done")
        yield Replied(AssistantMessage((Text("Well, done"),), "end", self.name))


class Heard:
    """A model that keeps what it hears, and answers with a function of it."""

    name = "heard"

    def __init__(self, answer: Callable[[Sequence[Message]], str] = lambda _: "yes") -> None:
        self.heard: list[list[Message]] = []
        self.instructions: list[str] = []
        self.tools: list[list[str]] = []
        self._answer = answer

    def projection(self, instructions: str = "") -> KeptMessages:
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        assert isinstance(projection, KeptMessages)
        self.heard.append(list(projection.messages))
        self.instructions.append(projection.instructions)
        self.tools.append([spec.name for spec in specs])
        text = self._answer(projection.messages)
        yield TextDelta(text)
        yield Replied(AssistantMessage((Text(text),), "end", self.name))


class Held:
    """A tool of the gateway that is at work until the test lets it end."""

    def __init__(self, *, destructive: bool = False) -> None:
        annotations = Annotations(destructive=destructive, read_only=not destructive)
        self.spec = ToolSpec(
            "hold", "Holds.", {"type": "object", "properties": {}}, timeout=60, annotations=annotations
        )
        self.is_at_work = asyncio.Event()
        self.may_end = asyncio.Event()
        self.was_stopped = asyncio.Event()
        self.count = 0

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        self.count += 1
        self.is_at_work.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.was_stopped.set()
            raise
        return "held"


class Front:
    """A gateway, and clients of it."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.parts = gateway.gateway.parts
        self.client = self.another(gateway.token)
        self._clients = [self.client]

    def another(self, token: str, **more: Any) -> openai.AsyncOpenAI:
        """A client with another token."""
        made = openai.AsyncOpenAI(
            base_url=f"{self.gateway.url}/v1", api_key=token, timeout=60, **{"max_retries": 0, **more}
        )
        if hasattr(self, "_clients"):
            self._clients.append(made)
        return made

    async def ask(self, *messages: Any, **more: Any) -> Any:
        """A whole answer."""
        given = [user(one) if isinstance(one, str) else one for one in messages]
        return await self.client.chat.completions.create(**{"model": "handspan", "messages": given, **more})

    async def text(self, *messages: Any, **more: Any) -> str:
        """The text of a whole answer."""
        return str((await self.ask(*messages, **more)).choices[0].message.content)

    async def stream(self, *messages: Any, **more: Any) -> Any:
        """The chunks of an answer, as they come."""
        return await self.ask(*messages, stream=True, **more)

    async def sessions(self) -> list[str]:
        """The ids of all sessions of the operator."""
        page = await self.parts.store.conversations.page(owner=OPERATOR.owner)
        return [one.id for one in page.sessions]

    async def messages(self) -> list[Message]:
        """The messages of the one session that there is."""
        (session,) = await self.sessions()
        return await self.parts.store.conversations.load(session, owner=OPERATOR.owner)

    def hold(self, **more: Any) -> Held:
        """Give the gateway a tool that ends when it may."""
        held = Held(**more)
        self.parts.app.registry.register(held, Origin("plugin", "tests"))
        return held

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@asynccontextmanager
async def front(folder: Path, model: Model | None = None, **settings: Any) -> AsyncIterator[Front]:
    """A gateway with this model, or with one that does what it is told."""
    async with running_gateway(folder, model=model or Spoken(), **settings) as gateway:
        there = Front(gateway)
        try:
            yield there
        finally:
            await there.close()


def words(chunks: Sequence[Any]) -> str:
    """The text of a stream."""
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
