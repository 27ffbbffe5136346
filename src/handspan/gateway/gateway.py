"""The whole gateway: its parts, its doors, and how both open, work and close in order."""

import asyncio
import importlib
import logging
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.config.listing import SettingChanges
from handspan.config.load import LoadedSettings
from handspan.config.settings import Settings
from handspan.core.errors import HandspanError
from handspan.core.late_imports import LATE_IMPORTS
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Decision
from handspan.core.tasks import Tasks
from handspan.gateway.composition import compose
from handspan.gateway.entry.auth import let_in
from handspan.gateway.events import GatewayEvents
from handspan.gateway.http.refusals import JSON_HEADER, Refusal, is_graph, is_openai, send_refusal, send_whole
from handspan.gateway.log.requests import with_request_log
from handspan.gateway.parts import Door, OpenDoor
from handspan.gateway.paths import OPEN_ANSWERS, below_prefix, merge_slashes
from handspan.gateway.ws import WebSocketDoor
from handspan.models.model import Model

_log = logging.getLogger(__name__)

_DOORS: Final = {
    "rest": "handspan.gateway.rest.door",
    "graph": "handspan.gateway.graph.door",
    "openai": "handspan.gateway.openai.door",
    "agui": "handspan.gateway.agui.door",
    "ui_stream": "handspan.gateway.ui_stream.door",
    "mcp": "handspan.gateway.mcp.door",
    "pages": "handspan.gateway.pages",
}
"""Doors for HTTP. Each is loaded by its first request: a gateway that only serves devices needs none of them."""
_FILES: Final = ("/page/", "/sdk/", "/examples/")
_PAGES: Final = frozenset(("", "/", "/device", "/worker.js", "/manifest.webmanifest"))
_EXPIRY_INTERVAL: Final = 5.0
"""Seconds between two searches for expired calls."""
_LEFT_INTERVAL: Final = 60.0
"""Seconds between two searches for brief sessions that were left."""


class Gateway:
    """Lets people talk to agents, and lets agents use the tools of devices. `Server` puts it on a port."""

    def __init__(
        self,
        settings: Settings,
        config_folder: Path | None = None,
        *,
        model: str | Model = "",
        is_inside: bool = False,
        loaded: LoadedSettings | None = None,
    ) -> None:
        """`model` is for agents that name none: a name as in the settings, or a model object.

        `is_inside`: the gateway serves one command of this process. It makes no token, takes over no calls of an
        earlier process, and uses `model` for every agent. `loaded` says where the settings come from.
        """
        self.settings = settings
        self.parts = compose(settings, config_folder, model=model, is_inside=is_inside, loaded=loaded)
        self.ws = WebSocketDoor(self.parts)
        self.doors: dict[str, Door] = {}
        """The doors that are open, by their names in `_DOORS`."""
        self._events = GatewayEvents(self.parts, self.ws)
        self._is_inside = is_inside
        self._tasks = Tasks()

    @property
    def operator_token(self) -> str:
        """The token of the person who runs this gateway; set by `open`."""
        return self.parts.auth.operator_token

    @property
    def leaving_seconds(self) -> float:
        """Seconds that a node may take to send its clients to other nodes, before its own work ends; alone: none."""
        return self.parts.nodes.leaving_seconds

    # Open and close.

    async def open(self, url: str = "") -> None:
        """Get ready for requests, which come to this address. Calls that an earlier process left open go on."""
        nodes, app = self.parts.nodes, self.parts.app
        nodes.prepare(self.settings.gateway.public_url or url)
        await app.open()
        try:
            await nodes.connect()
            await self._open_parts(url)
            if not self._is_inside:
                await self._begin_work()
        except BaseException:
            await self._close_app()
            raise

    async def _open_parts(self, url: str) -> None:
        """Open the parts that doors need."""
        parts = self.parts
        if not self._is_inside:
            await parts.auth.open()
        await parts.devices.open()
        await parts.models.open()
        parts.resume_tokens.use(await parts.nodes.secret("resume"))
        if url:
            base_url = self.settings.gateway.public_url.rstrip("/") or url
            parts.app.mcp.logins.open(parts.questions, self._withdraw_question, base_url)
        self._events.open()

    async def _begin_work(self) -> None:
        """Take part in the work of all nodes, and go on with what an earlier process left."""
        parts, recovery = self.parts, self.parts.app.recovery
        parts.push.open()
        await parts.nodes.open()
        if not parts.nodes.runs_turns:
            return
        await parts.unfinished.open(self.settings.gateway.resume_grace)
        parts.sessions.cut_off.update(recovery.closed)
        await parts.resumable.recover(recovery)
        if parts.channels is not None:
            await parts.channels.open()
        await parts.scheduler.open(recovery.runs)
        self._tasks.start(self._end_expired_calls())
        self._tasks.start(self._remove_left_sessions())

    async def leave(self) -> None:
        """Send the clients and turns to other nodes, and answer requests as before. Returns when they are gone."""
        self._leave_questions()
        await self.parts.nodes.drain(self.leaving_seconds)

    async def drain(self, seconds: float) -> None:
        """Take no new work. What can wait without this process is left to the next one, or to another node.

        Other turns and calls that run end, or are ended, within so many seconds (SPEC A2, G3).
        """
        parts, engine = self.parts, self.parts.app.engine
        if parts.channels is not None:
            await parts.channels.stop()
        await parts.scheduler.stop()
        self._leave_questions()
        await parts.nodes.drain(0.0)
        parts.peers.stop()
        engine.is_stopping = True
        engine.runner.hand_over()
        await asyncio.gather(parts.sessions.drain(seconds), *(door.drain(seconds) for door in self.doors.values()))
        if parts.channels is not None:
            await parts.channels.drain(seconds)

    def _leave_questions(self) -> None:
        """Let the calls that wait for a person wait without this process."""
        engine = self.parts.app.engine
        engine.hands_over = True
        self.parts.questions.hand_over(engine.can_hand_over)

    def work_left(self) -> tuple[int, int]:
        """Return how many turns and how many other calls run: a gateway that stops waits for them."""
        return self.parts.sessions.count_running(), sum(door.count_running() for door in self.doors.values())

    async def close(self) -> None:
        """Close the doors and all parts."""
        parts = self.parts
        await self._tasks.close()
        await parts.models.close()
        await self.drain(0)
        parts.peers.close()
        for door in self.doors.values():
            await door.close()
        await parts.scheduler.close()
        if parts.channels is not None:
            await parts.channels.close()
        await parts.unfinished.close()
        await parts.trust.close()
        await parts.push.close()
        await parts.late.close()
        await parts.devices.close()
        await self._close_app()

    async def _close_app(self) -> None:
        await self.parts.nodes.close()
        await self.parts.app.close()

    async def reload(self) -> SettingChanges:
        """Take the settings as their files have them now. Raises `ConfigError`, and changes nothing, if that fails."""
        return await self.parts.reloading.reload()

    async def _withdraw_question(self, question_id: str, decision: Decision) -> bool:
        """End a question of the operator: the person has done what the question asked for, or can't any more."""
        return await self.parts.questions.answer(question_id, Answer(decision), person(OPERATOR))

    async def _end_expired_calls(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_INTERVAL)
            try:
                await self.parts.resumable.expire()
            except HandspanError as error:
                _log.error("Expired calls could not be ended: %s", error)

    async def _remove_left_sessions(self) -> None:
        while True:
            try:
                await self.parts.brief.remove_left()
            except HandspanError as error:
                _log.error("Sessions that were left could not be removed: %s", error)
            await asyncio.sleep(_LEFT_INTERVAL)

    # Doors.

    @property
    def asgi(self) -> ASGIApp:
        """The application, below the path prefix."""
        prefix = self.settings.gateway.path_prefix
        return with_request_log(below_prefix(self._enter, prefix) if prefix else self._enter)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or connection."""
        scope = merge_slashes(scope)
        if scope["type"] != "http":
            await self._connect(scope, receive, send)
            return
        admitted = await let_in(self.parts.auth, scope, receive, send)
        if admitted is None:
            return
        receive, send = admitted
        constant = OPEN_ANSWERS.get(_path(scope)) if scope["method"] == "GET" else None
        if constant is not None:
            await send_whole(send, 200, [JSON_HEADER], constant)
            return
        name = door_of(scope)
        door = self.doors.get(name) or self._open_door(name)
        await door.answer(scope, receive, send)

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give a WebSocket to the door of its path, or refuse it."""
        if _path(scope) == "/ws/chat":
            await self.ws(scope, receive, send)
            return
        door = (self.doors.get("graph") or self._open_door("graph")) if _path(scope) == "/v1/graph/ws" else None
        if door is not None and door.connect is not None:
            await door.connect(scope, receive, send)
            return
        await receive()
        await send_refusal(Refusal(404, "not_found", "WebSockets are at /ws/chat and /v1/graph/ws."), scope, send)

    def _open_door(self, name: str) -> Door:
        with LATE_IMPORTS:  # a thread may import the MCP SDK just now, for the link to a server
            open_door: OpenDoor = importlib.import_module(_DOORS[name]).open_door
        door = self.doors[name] = open_door(self.parts)
        return door


def door_of(scope: Scope) -> str:
    """Return the name of the door for this path."""
    path = _path(scope)
    if is_graph(scope):
        return "graph"
    if is_openai(scope):
        return "openai"
    if path == "/agui" or path.startswith("/agui/"):
        return "agui"
    if path == "/ui" or path.startswith("/ui/"):
        return "ui_stream"
    if path == "/mcp" or path.startswith("/mcp/"):
        return "mcp"
    return "pages" if path in _PAGES or path.startswith(_FILES) else "rest"


def _path(scope: Scope) -> str:
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path
