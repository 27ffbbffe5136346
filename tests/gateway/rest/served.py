"""A real gateway for the tests of its REST door: real application, real auth, real turns, on a real port."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from starlette.types import ASGIApp

from handspan.agent.sessions import Sessions
from handspan.bus.memory import MemoryBus
from handspan.config.load import load_settings
from handspan.config.settings import Settings
from handspan.core.bus import TokenRevoked
from handspan.core.context import ToolContext
from handspan.core.principals import BUILTIN, OPERATOR, Origin, ToolScope
from handspan.core.tool import READ_ONLY, Annotations, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject
from handspan.gateway.app import App
from handspan.gateway.clients.devices import Devices
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.live import Live
from handspan.gateway.metrics import Metrics
from handspan.gateway.rest.door import router
from handspan.gateway.rest.parts import BodyLimits, RestParts
from handspan.gateway.serving.server import Server
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.gateway.sessions.resumable_calls import ResumableCalls
from handspan.models.choice import Choice
from handspan.models.scripted import Scripted, ScriptTurn
from handspan.wire.rest.devices import ForgottenDevice
from tests.gateway.entry.entering import Guarded
from tests.stores import open_artifacts

STRANGER = "stranger"


def settings(folder: Path, **more: Json) -> Settings:
    given: JsonObject = {
        "workspace": str(folder / "ws"),
        "state": str(folder / "st"),
        "model": "offline",
        "gateway": {"port": 0},
        **more,
    }
    return load_settings(None, {"HOME": str(folder)}, given)


class Rest:
    """What the gateway does, as far as REST needs it."""

    leaving_seconds = 0.0

    def __init__(self, given: Settings) -> None:
        self.settings = given
        self.bus = MemoryBus(strict=True)
        self.questions = AwaitedQuestions(self.bus)
        self.app = App(given, questions=self.questions, bus=self.bus)
        self.script: list[ScriptTurn] = ["Hello."]
        self.parts: RestParts
        self.sessions: Sessions
        self.asgi: ASGIApp
        self.owner_token = self.stranger_token = self.device_token = self.chat_token = ""

    async def open(self, url: str = "") -> None:
        app = self.app
        await app.open()
        store = app.store
        auth = Auth(self.settings, store.tokens, self.settings.state, self.bus)
        await auth.open()
        self.sessions = Sessions(store.conversations, app.loader, app.agents, self._choose, self.bus)
        answered = ResumableCalls(store, app.engine, app.loader, app.agents, self.sessions)
        self.questions.open(store.questions, answered.resume_answered)
        self.devices = Devices(store.devices)
        await self.devices.open()
        self.parts = RestParts(
            app=app,
            bus=self.bus,
            artifacts=open_artifacts(self.settings.state / "artifacts"),
            auth=auth,
            sessions=self.sessions,
            questions=self.questions,
            devices=self.devices,
            forget_device=self._forget_device,
            pairing=Pairing(auth),
            live=Live(),
            metrics=Metrics(),
            limits=BodyLimits(upload=1024 * 1024),
        )
        self.bus.subscribe(TokenRevoked, lambda event: self.parts.live.drop(event.token))
        self.bus.subscribe(TokenRevoked, lambda event: self.parts.at_work.drop(event.token))
        self.owner_token = auth.operator_token
        self.stranger_token = await auth.issue(STRANGER, ("admin", "chat"))
        self.device_token = await auth.issue(OPERATOR.owner, ("device",))
        self.chat_token = await auth.issue(OPERATOR.owner, ("chat",))
        self.asgi = Guarded(router(self.parts), auth)

    async def _forget_device(self, label: str, owner: str) -> ForgottenDevice | None:
        return ForgottenDevice(True, label) if await self.devices.forget(label, owner) else None

    async def leave(self) -> None:
        """There are no other nodes."""

    async def drain(self, seconds: float) -> None:
        await self.parts.drain(0)
        await self.sessions.drain(seconds)

    async def close(self) -> None:
        await self.devices.close()
        await self.app.close()

    async def _choose(self, _: str) -> Choice:
        return Choice(Scripted(self.script, loop=True), "for a test")


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
