"""The whole SDK over a real socket; the gateway's half is a `websockets` server."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
from websockets.asyncio.server import ServerConnection, serve

from handspan.client import Backoff, CallContext, Chat, Client, LoginRequest, LoginRequired, PermissionQuestion
from handspan.client.chat import EventStream
from handspan.core.errors import ErrorCode, ToolError
from handspan.core.events import QuestionAsked
from handspan.core.values import Arguments
from handspan.wire.ws_chat_frames import ChannelMessage
from handspan.wire.ws_frames import Decision
from tests.vectors.cases import Case
from tests.vectors.pure import fields_of, value_of
from tests.waiting import until

SECONDS = 60.0


class WiredClient:
    """A `Client` and the server that it is connected to."""

    def __init__(self, case: Case, port: int, state: Path, links: "asyncio.Queue[ServerConnection]") -> None:
        self._case = case
        self._url = f"http://127.0.0.1:{port}/prefix"
        self._state = state
        self._links = links
        self._link: ServerConnection | None = None
        self._is_connected = False
        self._counts: Counter[str] = Counter()
        self._fences = itertools.count()
        self._begin()

    def _begin(self) -> None:
        given = self._case.client
        state = self._state if given.get("state") else None
        self._orders: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self._begun = asyncio.Condition()
        self._logins: asyncio.Queue[LoginRequest] = asyncio.Queue()
        self._decisions: dict[str, asyncio.Queue[tuple[Decision, str]]] = {}
        self._shown: list[Any] = []
        listener = self._show if given.get("messages") else None
        self._client = Client(
            self._url,
            "token",
            label=given.get("label"),
            state=state,
            concurrency=given.get("concurrency", 1),
            ask_permission=self._ask,
            start_login=self._begin_login,
            backoff=Backoff(0.001, 0.01),
            on_channel_message=listener,
        )
        for tool in self._case.tools:
            offer = {key: value for key, value in tool.items() if key != "code"}
            self._client.register(offer, self._code if tool.get("code", True) else None)
        self._events: list[Any] = []
        self._more = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._chat = self._client.chat(on_channel_message=listener) if given.get("role") == "chat" else None
        self._watching = None if self._chat is None else self._chat.watch()
        self._task = asyncio.create_task(self._client.run() if self._chat is None else _open(self._chat))

    async def _code(self, arguments: Arguments, ctx: CallContext) -> Any:
        """The code of every tool: does what the case says, when it says so."""
        orders = self._orders[ctx.call_id] = asyncio.Queue()
        self._counts[ctx.tool] += 1
        async with self._begun:
            self._begun.notify_all()
        while True:
            try:
                order = await orders.get()
            except asyncio.CancelledError:
                self._orders[f"stopped {ctx.call_id}"] = orders
                async with self._begun:
                    self._begun.notify_all()
                raise
            if "progress" not in order:
                del self._orders[ctx.call_id]  # the same call may run again, after a login
            match order:
                case {"returns": value}:
                    return value_of(value)
                case {"raises": str(text), "code": "auth_required", **how}:
                    raise LoginRequired(text, hint=how.get("hint", ""), intent=how.get("intent", ""))
                case {"raises": str(text), "code": code}:
                    raise ToolError(cast(ErrorCode, code), text)
                case {"raises": str(text)}:
                    raise RuntimeError(text)
                case {"progress": value}:
                    ctx.progress(value)

    async def _ask(self, question: PermissionQuestion) -> tuple[Decision, str]:
        return await self._decisions.setdefault(question.permission, asyncio.Queue()).get()

    async def _begin_login(self, request: LoginRequest) -> None:
        self._logins.put_nowait(request)

    async def login_begun(self, call_id: str) -> str:
        """The intent of the login that is to be begun."""
        async with asyncio.timeout(SECONDS):
            request = await self._logins.get()
        assert request.call_id == call_id
        return request.intent

    async def up(self) -> None:
        """Take the link that the client opens."""
        async with asyncio.timeout(SECONDS):
            self._link = await self._links.get()
        self._is_connected = False

    async def drop(self) -> None:
        """Cut it."""
        self._live.transport.abort()
        self._link = None

    async def say(self, frame: dict[str, Any]) -> None:
        """The gateway says this."""
        self._is_connected = self._is_connected or frame["type"] == "connected"
        await self._live.send(msgspec.json.encode(frame), text=True)

    async def sent(self) -> dict[str, Any]:
        """The next frame that is not about a fence."""
        while _is_fence(frame := await self._received()):
            await self.say({"type": "result_acknowledged", "id": frame["id"]})
        return frame

    async def _received(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            frame: dict[str, Any] = msgspec.json.decode(await self._live.recv())
        return frame

    async def nothing_more(self) -> list[dict[str, Any]]:
        """What comes before the answer to a request for a tool that does not exist."""
        if self._link is None:
            return []
        if not self._is_connected:
            await self._settled()
            return []
        fence = f"fence-{next(self._fences)}"
        await self.say({"type": "tool_call_request", "id": fence, "name": "no_such_tool", "args": {}})
        frames: list[dict[str, Any]] = []
        while (frame := await self._received()).get("id") != fence:
            frames += [] if _is_fence(frame) else [frame]
        await self.say({"type": "result_acknowledged", "id": fence})
        return frames

    async def _settled(self) -> None:
        async with asyncio.timeout(SECONDS):
            await (await self._live.ping())

    async def end(self, call_id: str, how: dict[str, Any]) -> None:
        """The code of a call does this, when it runs."""
        wanted = f"stopped {call_id}" if how.get("stopped") else call_id
        async with asyncio.timeout(SECONDS), self._begun:
            await self._begun.wait_for(lambda: wanted in self._orders)
        self._orders[wanted].put_nowait(how)

    async def decide(self, permission: str, decision: str, how_to_enable: str) -> None:
        """The person says this, when they are asked."""
        decisions = self._decisions.setdefault(permission, asyncio.Queue())
        decisions.put_nowait((cast(Decision, decision), how_to_enable))

    async def answer(self, question_id: str, said: dict[str, Any]) -> None:
        """The person answers, when they are asked."""
        assert self._chat is not None and self._watching is not None, "it is no chat"
        async with asyncio.timeout(SECONDS):
            async for event in self._watching:
                if isinstance(event, QuestionAsked):
                    assert event.question.id == question_id, "another one is asked, or the same again"
                    await self._chat.answer(question_id, **said)
                    return

    async def restart(self) -> None:
        """Kill it: what it would write while it ends is not written. Then start it again."""
        kept = self._state.read_bytes() if self._state.exists() else None
        await self.close()
        if kept is not None:
            self._state.write_bytes(kept)
        self._link = None
        while not self._links.empty():  # it may have come back before it was killed
            self._links.get_nowait()
        self._begin()

    async def unregister(self, name: str) -> None:
        """The program takes a tool back."""
        await self._settled()
        await until(lambda: self._client.state == "connected")
        self._client.unregister(name)

    def runs(self, tool: str) -> int:
        """How often its code was begun."""
        return self._counts[tool]

    async def speak(self, text: str) -> None:
        """The program says this."""
        assert self._chat is not None, "it is no chat"
        self._listening = asyncio.create_task(self._listen(self._chat.send(text)))

    async def _listen(self, events: EventStream) -> None:
        async for event in events:
            self._events.append(msgspec.to_builtins(event))
            self._more.set()

    async def heard(self, count: int) -> list[Any]:
        """The events of what it said."""
        async with asyncio.timeout(SECONDS):
            while len(self._events) < count:
                self._more.clear()
                await self._more.wait()
        return self._events

    def _show(self, message: ChannelMessage) -> None:
        self._shown.append(fields_of(message))
        self._more.set()

    async def shown(self, count: int) -> list[Any]:
        """The messages of agents."""
        async with asyncio.timeout(SECONDS):
            while len(self._shown) < count:
                self._more.clear()
                await self._more.wait()
        return self._shown

    async def close(self) -> None:
        """End it at once."""
        tasks = [task for task in (self._task, self._listening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _live(self) -> ServerConnection:
        assert self._link is not None, "the link is down"
        return self._link


async def _open(chat: Chat) -> None:
    """Be there until somebody ends this."""
    async with chat:
        await asyncio.Event().wait()


def _is_fence(frame: dict[str, Any]) -> bool:
    return str(frame.get("id")).startswith("fence-")


@asynccontextmanager
async def wired_client(case: Case, folder: Path) -> AsyncIterator[WiredClient]:
    """The client of a case, connected to nobody yet."""
    links: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def take(link: ServerConnection) -> None:
        assert link.request is not None
        assert link.request.path.partition("?")[0] == "/prefix/ws/chat"
        assert link.request.headers["Authorization"] == "Bearer token"
        links.put_nowait(link)
        await link.wait_closed()

    async with serve(take, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        player = WiredClient(case, port, folder / "state.json", links)
        try:
            yield player
        finally:
            await player.close()
