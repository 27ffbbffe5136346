"""A real gateway for the tests of its REST door: real application, real auth, real turns, on a real port."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from starlette.types import ASGIApp

from handspan.config.load import load_settings
from handspan.config.settings import Settings
from handspan.core.context import ToolContext
from handspan.core.principals import BUILTIN, OPERATOR, Origin, ToolScope
from handspan.core.tool import READ_ONLY, Annotations, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject
from handspan.gateway.gateway import Gateway
from handspan.gateway.rest.door import make_state, router
from handspan.gateway.serving.server import Server
from handspan.models.scripted import Scripted, ScriptTurn
from tests.gateway.entry.entering import Guarded
from tests.gateway.sessions.session_kit import Player

STRANGER = "stranger"


def settings(folder: Path, **more: Json) -> Settings:
    given: JsonObject = {
        "workspace": str(folder / "ws"),
        "state": str(folder / "st"),
        "model": "offline",
        "gateway": {"port": 0, "upload_bytes": 1024 * 1024},
        **more,
    }
    return load_settings(None, {"HOME": str(folder)}, given)


class Rest:
    """A gateway whose REST door is asked directly."""

    leaving_seconds = 0.0

    def __init__(self, given: Settings, *, is_inside: bool = False) -> None:
        """`is_inside`: it serves one command, with the model of the settings."""
        self.settings = given
        self._player = Player(())
        self._is_inside = is_inside
        self.gateway = Gateway(given, model="" if is_inside else self._player, is_inside=is_inside)
        self.parts = self.gateway.parts
        self.app, self.bus, self.devices = self.parts.app, self.parts.bus, self.parts.devices
        self.questions, self.sessions = self.parts.questions, self.parts.sessions
        self.state = make_state(self.parts)
        self.router = router(self.parts, self.state)
        self.asgi: ASGIApp = Guarded(self.router, self.parts.auth)
        self.script = ["Hello."]
        self.owner_token = self.stranger_token = self.device_token = self.chat_token = ""

    @property
    def script(self) -> list[ScriptTurn]:
        """What the model says in each turn, again and again."""
        return self._script

    @script.setter
    def script(self, turns: list[ScriptTurn]) -> None:
        self._script = turns
        self._player.script = Scripted(turns, loop=True)

    async def open(self, url: str = "") -> None:
        await self.gateway.open(url)
        auth = self.parts.auth
        if self._is_inside:
            await auth.open()
        self.owner_token = auth.operator_token
        self.stranger_token = await auth.issue(STRANGER, ("admin", "chat"))
        self.device_token = await auth.issue(OPERATOR.owner, ("device",))
        self.chat_token = await auth.issue(OPERATOR.owner, ("chat",))

    async def leave(self) -> None:
        """There are no other nodes."""

    async def drain(self, seconds: float) -> None:
        await self.state.drain(0)
        await self.gateway.drain(seconds)

    async def close(self) -> None:
        await self.gateway.close()


class RestClient:
    """Sends requests to the gateway, as one person with one token."""

    def __init__(self, rest: Rest, url: str, http: httpx2.AsyncClient) -> None:
        self.rest = rest
        self.url = url
        self.http = http

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        content: Any = None,
    ) -> httpx2.Response:
        token = self.rest.owner_token if token is None else token
        sent = {**({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        if body is not None:
            return await self.http.request(method, self.url + path, json=body, headers=sent)
        return await self.http.request(method, self.url + path, content=content, headers=sent)

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        return await self.ask("POST", path, body, **more)

    async def stranger(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        return await self.ask(method, path, body, token=self.rest.stranger_token)


@asynccontextmanager
async def serving(rest: Rest) -> AsyncIterator[RestClient]:
    server = Server(rest, rest.settings.gateway)
    url = await server.open()
    try:
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
            yield RestClient(rest, url, http)
    finally:
        await server.close()


class TestTool:
    """A tool whose work is given."""

    __test__ = False

    def __init__(
        self,
        name: str,
        work: Callable[[Arguments, ToolContext], Awaitable[Any]],
        annotations: Annotations = READ_ONLY,
        permissions: tuple[str, ...] = (),
    ) -> None:
        anything: JsonObject = {"type": "object", "properties": {"n": {"type": "integer", "description": "A number."}}}
        self.spec = ToolSpec(name, "Does what the test wants.", anything, permissions, annotations=annotations)
        self._work = work

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Any:
        return await self._work(arguments, ctx)


class Counting:
    """A tool that counts its runs, and waits until it may end."""

    def __init__(self, rest: Rest, name: str = "counting", annotations: Annotations | None = None) -> None:
        self.runs = 0
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        rest.app.registry.register(TestTool(name, self._run, annotations or Annotations()), BUILTIN)

    async def _run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        self.runs += 1
        self.began.set()
        await self.may_end.wait()
        return {"n": arguments.get("n"), "runs": self.runs}


def register_for(rest: Rest, name: str, origin: Origin, scope: ToolScope) -> None:
    async def work(arguments: Arguments, ctx: ToolContext) -> Json:
        return "done"

    rest.app.registry.register(TestTool(name, work), origin, scope)


async def session_of(rest: Rest, owner: str = OPERATOR.owner, said: Sequence[Any] = ()) -> str:
    """A session of this owner."""
    store = rest.app.store
    assert store is not None
    session = await store.conversations.create(owner=owner)
    if said:
        await store.conversations.append(session.id, *said, owner=owner)
    return session.id


def is_error(response: httpx2.Response, status: int, code: str) -> bool:
    """Whether this is the one form of errors, with this status and code."""
    told = response.json()
    assert response.headers["content-type"] == "application/json", response.text
    assert (
        set(told) == {"error", "code"} | ({"retry_after"} if "retry-after" in response.headers else set())
        and told["error"]
    ), told
    assert "Traceback" not in response.text
    assert (response.status_code, told["code"]) == (status, code), response.text
    return True
