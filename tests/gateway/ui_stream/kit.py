"""Chats of the AI SDK's own client, in a process of Node, with a gateway over a real socket."""

import asyncio
import itertools
import json
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.core.principals import OPERATOR, Origin
from handspan.models.model import Model
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.spoken import Spoken
from tests.gateway.openai.kit import Held
from tests.sources.mcp.test_real_servers import NODE, ROOT
from tests.waiting import soon

WEATHER: Final[dict[str, Any]] = {
    "get_weather": {
        "description": "The weather of a city.",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
}
ASK_WEATHER: Final = 'Looking.\ncall get_weather {"city": "Rome"}\nthen\nIt is {results}'
_PROGRAM: Final = ROOT / "tests" / "node" / "ui_chats.mjs"


class Pages:
    """The process with the chats. Its orders are answered in any order."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [str(NODE), str(_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]] = {}
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def order(self, chat: str, do: str, **given: Any) -> asyncio.Future[Any]:
        """What the order gives, when it is done."""
        loop, number = asyncio.get_running_loop(), next(self._numbers)
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting[number] = (loop, answer)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"n": number, "chat": chat, "do": do, **given}) + "\n")
        self._process.stdin.flush()
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            loop, waiting = self._waiting.pop(answer["n"])
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, waiting, answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._reading.join(60)
        self._process.stdout.close()


def _settle(waiting: asyncio.Future[Any], answer: Any) -> None:
    if waiting.done():
        return
    if "error" in answer:
        waiting.set_exception(AssertionError(answer["error"]))
    else:
        waiting.set_result(Seen(answer["value"]))


class Seen:
    """A chat as its page shows it."""

    def __init__(self, value: Any) -> None:
        self.messages: list[Any] = value["messages"]
        self.status: str = value["status"]
        self.error: str = value.get("error") or ""
        self.requests: list[Any] = value["requests"]
        self.called: list[str] = value["called"]

    @property
    def last(self) -> Any:
        """The last message."""
        return self.messages[-1]

    @property
    def text(self) -> str:
        """The text of the last message."""
        return "".join(part["text"] for part in self.last["parts"] if part["type"] == "text")

    @property
    def tools(self) -> list[Any]:
        """The calls of the last message."""
        return [part for part in self.last["parts"] if part["type"].startswith(("tool-", "dynamic-tool"))]

    @property
    def shape(self) -> list[str]:
        """The last message, part by part."""
        return [
            part["type"] if "state" not in part else f"{part['type']} {part['state']}" for part in self.last["parts"]
        ]


class Page:
    """One chat of one page."""

    def __init__(self, pages: Pages, name: str) -> None:
        self._pages, self._name = pages, name

    def __getattr__(self, do: str) -> Any:
        async def order(**given: Any) -> Seen:
            return await soon(self._pages.order(self._name, do, **given))

        return order

    async def say(self, text: str, **more: Any) -> Seen:
        """Send a message, and return the chat when all is quiet."""
        return await soon(self._pages.order(self._name, "send", text=text, **more))

    def begin(self, text: str, **more: Any) -> asyncio.Future[Any]:
        """Send a message, and do not wait."""
        return self._pages.order(self._name, "send", text=text, **more)


class UiFront:
    """A gateway, and pages that use it."""

    def __init__(self, gateway: RunningGateway, pages: Pages) -> None:
        self.gateway, self._pages = gateway, pages
        self._names = itertools.count()

    @property
    def parts(self) -> Any:
        """The parts of the gateway."""
        return self.gateway.gateway.parts

    async def page(self, chat: str = "c1", *, agent: str = "", token: str = "", **more: Any) -> Page:
        """Open a chat in another page."""
        name = f"{id(self)}-{next(self._names)}"
        api = f"{self.gateway.url}/ui/{agent}".rstrip("/")
        await soon(self._pages.order(name, "open", id=chat, api=api, token=token or self.gateway.token, **more))
        return Page(self._pages, name)

    async def messages(self) -> list[Message]:
        """The messages of the one session that there is."""
        page = await self.parts.store.conversations.page(owner=OPERATOR.owner)
        (session,) = page.sessions
        found: list[Message] = await self.parts.store.conversations.load(session.id, owner=OPERATOR.owner)
        return found

    async def said(self) -> list[str]:
        """The texts of the one session that there is."""
        return [
            "".join(getattr(part, "text", "") for part in one.parts)
            for one in await self.messages()
            if isinstance(one, UserMessage | AssistantMessage)
        ]

    def hold(self, **more: Any) -> Held:
        """Give the gateway a tool that ends when it may."""
        held = Held(**more)
        self.parts.app.registry.register(held, Origin("plugin", "tests"))
        return held


@asynccontextmanager
async def ui_front(folder: Path, pages: Pages, model: Model | None = None, **settings: Any) -> AsyncIterator[UiFront]:
    """A gateway with this model, or with one that does what it is told."""
    async with running_gateway(folder, model=model or Spoken(), **settings) as gateway:
        yield UiFront(gateway, pages)
