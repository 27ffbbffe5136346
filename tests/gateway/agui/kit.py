"""Clients of AG-UI that others wrote (`HttpAgent` of `@ag-ui/client`, in one Node process), and gateways for them."""

import asyncio
import itertools
import json
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from handspan.core.principals import OPERATOR, Origin
from handspan.models.model import Model
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.spoken import Spoken
from tests.gateway.openai.kit import Held
from tests.sources.mcp.test_real_servers import NODE, ROOT
from tests.waiting import soon

SCRIPT: Final = ROOT / "tests" / "node" / "agui.mjs"
WEATHER: Final[dict[str, Any]] = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ASK_WEATHER: Final = 'call get_weather {"city": "Rome"}\nthen\nIt is {results}'
_ids = itertools.count(1)


def user(text: Any) -> dict[str, Any]:
    """A person's message."""
    return {"id": f"u{next(_ids)}", "role": "user", "content": text}


def result(call_id: str, text: Any, **more: Any) -> dict[str, Any]:
    """What a tool of the client has answered."""
    return {"id": f"t{next(_ids)}", "role": "tool", "toolCallId": call_id, "content": text, **more}


class Run:
    """One run of a client: its events as they come, and its end."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._end: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._came = asyncio.Event()

    def take(self, line: Any) -> None:
        """Take one line of the program."""
        if "event" in line:
            self.events.append(line["event"])
        elif not self._end.done():
            self._end.set_result(line)
        self._came.set()

    async def until(self, kind: str) -> Any:
        """The first event of this type, once it is there."""
        while not (found := self.of(kind)):
            assert not self._end.done(), (self._end.result(), self.events)
            self._came.clear()
            await soon(self._came.wait())
        return found[0]

    async def end(self) -> Any:
        """What the client has at the end."""
        return await soon(self._end)

    async def good_end(self) -> Any:
        """What the client has at the end of a run without an error."""
        end = await self.end()
        assert "error" not in end, end
        return end

    def of(self, *kinds: str) -> list[Any]:
        """The events of these types."""
        return [event for event in self.events if event["type"] in kinds]

    @property
    def kinds(self) -> list[str]:
        """The types of all events."""
        return [event["type"] for event in self.events]

    @property
    def text(self) -> str:
        """The text of the agent."""
        return "".join(event["delta"] for event in self.of("TEXT_MESSAGE_CONTENT"))

    @property
    def outcome(self) -> Any:
        """How the run ended, by its last event."""
        return self.events[-1].get("outcome")


class Node:
    """The Node process. Every warning of the client fails the test that looks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [NODE, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._takers: dict[int, Callable[[Any], object]] = {}
        self.warnings: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, command: Any) -> None:
        """Give the program a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def begin(self, command: Any) -> Run:
        """Begin a run."""
        run, number, loop = Run(), next(_ids), asyncio.get_running_loop()

        def take(line: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(run.take, line)

        self._takers[number] = take
        self.send({"id": number, **command})
        return run

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            if "warning" in line:
                self.warnings.append(line["warning"])
            else:
                self._takers[line["id"]](line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._reader.join(30)
        self._process.stdout.close()


class Agent:
    """One `HttpAgent`, which keeps its thread."""

    def __init__(self, node: Node, url: str, token: str, path: str = "/agui", thread: str = "", **more: Any) -> None:
        self._node, self.name = node, f"agent{next(_ids)}"
        self.thread = thread or f"thread-{next(_ids)}"
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        options = {"url": f"{url}{path}", "headers": headers, "threadId": self.thread, **more}
        node.send({"agent": self.name, "options": options})

    def begin(self, *messages: Any, **run: Any) -> Run:
        """Say this, and begin a run."""
        given = [user(one) if isinstance(one, str) else one for one in messages]
        return self._node.begin({"agent": self.name, "messages": given, "run": run})

    async def run(self, *messages: Any, **run: Any) -> Run:
        """Say this, and run to a good end."""
        began = self.begin(*messages, **run)
        await began.good_end()
        return began

    def abort(self) -> None:
        """Stop the run, as a person does."""
        self._node.send({"agent": self.name, "abort": True})


class Place:
    """A gateway in this process, and clients of it."""

    def __init__(self, gateway: RunningGateway, node: Node) -> None:
        self.gateway, self.node = gateway, node
        self.parts = gateway.gateway.parts

    def agent(self, token: str = "", **more: Any) -> Agent:
        """A client."""
        return Agent(self.node, self.gateway.url, token or self.gateway.token, **more)

    def hold(self, **more: Any) -> Held:
        """Give the gateway a tool that ends when it may."""
        held = Held(**more)
        self.parts.app.registry.register(held, Origin("plugin", "tests"))
        return held

    async def sessions(self) -> list[str]:
        """The ids of all sessions of the operator."""
        page = await self.parts.store.conversations.page(owner=OPERATOR.owner)
        return [one.id for one in page.sessions]

    async def messages(self) -> Any:
        """The messages of the one session that there is."""
        (session,) = await self.sessions()
        return await self.parts.store.conversations.load(session, owner=OPERATOR.owner)


@asynccontextmanager
async def place(node: Node, folder: Path, model: Model | None = None, **settings: Any) -> AsyncIterator[Place]:
    """A gateway with this model, or with one that does what it is told."""
    async with running_gateway(folder, model=model or Spoken(), **settings) as gateway:
        yield Place(gateway, node)
