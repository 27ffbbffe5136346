"""The whole gateway: the app, its doors and its clients. The only module that puts the doors together."""

import asyncio
import importlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import structs
from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.agent.sessions import Sessions
from handspan.bus.memory import STRICT_VARIABLE, MemoryBus
from handspan.config.listing import SettingChanges
from handspan.config.load import LoadedSettings
from handspan.config.settings import Settings
from handspan.core.bus import (
    Bus,
    CallCompleted,
    DeviceChanged,
    LoginRequested,
    QuestionEnded,
    QuestionOpened,
    TokenRevoked,
    ToolsChanged,
    TurnEvent,
)
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.events import CallStarted, Ended, RoundBegan, Titled, UsageCounted
from handspan.core.late_imports import LATE_IMPORTS
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Decision
from handspan.gateway.app import App
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.late_results import LateResults
from handspan.gateway.clients.messages import ClientMessages
from handspan.gateway.clients.peers import Peers
from handspan.gateway.clients.resume_tokens import ResumeTokens, load_key
from handspan.gateway.clients.trust import DeviceTrust
from handspan.gateway.clients.unfinished_calls import UnfinishedCalls
from handspan.gateway.clients.ws import WebSocketDoor, WsDoors
from handspan.gateway.entry.auth import Auth, let_in
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.http.refusals import JSON_HEADER, Refusal, is_graph, send_refusal, send_whole
from handspan.gateway.live import ALL_OWNERS, Live
from handspan.gateway.log.requests import with_request_log
from handspan.gateway.metrics import Metrics
from handspan.gateway.parts import Door, GatewayParts, OpenDoor
from handspan.gateway.paths import OPEN_ANSWERS, PathPrefix, merge_slashes
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.gateway.sessions.resumable_calls import ResumableCalls
from handspan.models.choice import OFFLINE, Choice
from handspan.models.model import Model
from handspan.sources.offers import OfferRules
from handspan.wire.ws_frames import WireLimits

if TYPE_CHECKING:
    from handspan.gateway.channels.door import ChannelDoor
    from handspan.gateway.nodes.cluster import Cluster
    from handspan.gateway.nodes.events import ClusterParts

_log = logging.getLogger(__name__)

_DOORS: Final = {
    "rest": "handspan.gateway.rest.door",
    "graph": "handspan.gateway.graph.door",
    "mcp": "handspan.gateway.mcp.door",
    "pages": "handspan.gateway.pages",
}
"""Doors for HTTP. Each is loaded by its first request: a gateway that only serves devices needs none of them."""
_CLUSTER: Final = "handspan.gateway.nodes.cluster"
"""Loaded only with the setting `cluster.url`."""
_CHANNELS: Final = "handspan.gateway.channels.door"
"""Loaded only with the setting `channels`."""
_FILES: Final = ("/page/", "/sdk/", "/examples/")
_EXPIRY_INTERVAL: Final = 5.0
"""Seconds between two searches for expired calls."""


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
        self.cluster = _load_cluster(settings) if settings.cluster.url and not is_inside else None
        """The other nodes; None when there are none."""
        strict = bool(os.environ.get(STRICT_VARIABLE))
        self.bus: Bus = MemoryBus(strict=strict) if self.cluster is None else self.cluster.bus
        self.questions = AwaitedQuestions(self.bus)
        self.live = Live()
        self.metrics = Metrics()
        self._messages = ClientMessages(self.bus, self.live, lambda: self.peers, is_alone=self.cluster is None)
        self.app = App(
            settings,
            self.questions,
            config_folder,
            alone=not is_inside,
            bus=self.bus,
            starts_servers=not is_inside,
            loaded=loaded,
            show_message=self._messages.show,
        )
        if self.cluster is not None:
            self.app.mcp.share = self.cluster.servers.share
        self.store = self.app.store
        self.auth = Auth(settings, self.store.tokens, settings.state, self.bus)
        self.pairing = Pairing(self.auth)
        self.devices = Devices(self.store.devices, keeper=self.app.registry.rights.find_keeper)
        self.app.registry.explain_absence = self._explain_absence
        self._choosing: asyncio.Task[Choice] | None = None
        """The search for the model of agents that name none."""
        self._reloading = asyncio.Lock()
        self._model = model
        self._is_inside = is_inside
        self._limits = msgspec.convert(structs.asdict(settings.gateway.limits), WireLimits)
        self._late = LateResults(self.store.ledger, self._limits.pending_calls, self.metrics.results.add)
        self._watching: asyncio.Task[None] | None = None
        """Ends expired calls."""
        self.doors: dict[str, Door] = {}
        """The doors that are open, by their names in `_DOORS`."""
        self.sessions: Sessions
        self.peers: Peers
        self._unfinished: UnfinishedCalls
        self._trust: DeviceTrust
        self._resumable: ResumableCalls
        self._ws: WebSocketDoor
        self.channels: ChannelDoor | None = None
        """The way in for people on other networks; None without a channel."""

    @property
    def operator_token(self) -> str:
        """The token of the person who runs this gateway; set by `open`."""
        return self.auth.operator_token

    def _explain_absence(self, owner: str, tool: str) -> str:
        """Return why this tool is not here, if a device or an MCP server that is away has it; else an empty text."""
        return self.app.mcp.explain_absence(tool) or self.devices.explain_absence(owner, tool)

    # Open and close.

    async def open(self, url: str = "") -> None:
        """Get ready for requests, which come to this address. Calls that an earlier process left open go on."""
        await self._open_app(url)
        try:
            await self._open_doors(url)
        except BaseException:
            await self._close_app()
            raise

    async def _open_doors(self, url: str) -> None:
        if not self._is_inside:
            await self.auth.open()
        await self.devices.open()
        named = self._model or ("" if self._is_inside else self.settings.model)
        if isinstance(named, str) and named not in ("", OFFLINE):
            await self.model_choice()  # a wrong name must fail at the start; a local model is looked for later
        app, store = self.app, self.store
        loader = app.loader
        self.sessions = Sessions(store.conversations, loader, app.agents, self._model_named, self.bus)
        self._resumable = ResumableCalls(store, app.engine, loader, app.agents, self.sessions)
        self._unfinished = UnfinishedCalls(
            app.engine, store, self.questions, app.artifacts, self.settings.workspace, self.sessions.resume_turn
        )
        self.peers = self._make_peers(await self._resume_key())
        self._trust = DeviceTrust(self.questions)
        self._ws = WebSocketDoor(
            WsDoors(
                self.auth,
                self.peers,
                self.sessions,
                self.questions,
                app.artifacts,
                self._trust,
                self._limits,
                self._late.take,
            )
        )
        self.questions.open(store.questions, self._resumable.resume_answered)
        if url:
            base_url = self.settings.gateway.public_url.rstrip("/") or url
            self.app.mcp.logins.open(self.questions, self._withdraw_question, base_url)
        self._subscribe()
        if len(app.messages):
            make_door: type[ChannelDoor] = importlib.import_module(_CHANNELS).ChannelDoor
            self.channels = make_door(
                app.messages, store.channels, self.sessions, self.questions, self.bus, self.cluster
            )
        if self._is_inside:
            return
        if self.cluster is not None:
            self.cluster.open(self._cluster_parts())
        if self.sessions.runs_turns:
            await self._unfinished.open(self.settings.gateway.resume_grace)
            self.sessions.cut_off.update(app.recovery.closed)
            await self._resumable.recover(app.recovery)
            if self.channels is not None:
                if self.cluster is not None:
                    self.channels.inbox.share(self.cluster.share_tries)
                await self.channels.open()
            self._watching = asyncio.create_task(self._end_expired_calls())
        self._watch_gauges()

    async def _open_app(self, url: str) -> None:
        if self.cluster is None:
            await self.app.open()
            return
        assert self.store.nodes is not None  # a store of several nodes has them
        self.cluster.prepare(self.store.nodes, self.settings.gateway.public_url or url)
        await self.app.open()
        try:
            await self.cluster.connect()
        except BaseException:
            await self._close_app()
            raise

    async def _resume_key(self) -> bytes:
        """Return the key that signs resume tokens. All nodes have the same key."""
        if self.cluster is not None and self.store.nodes is not None:
            return await self.store.nodes.secret("resume")
        return load_key(self.settings.state / "resume.key")

    async def leave(self) -> None:
        """Send the clients and turns to other nodes, and answer requests as before. Returns when they are gone."""
        self._leave_questions()
        if self.cluster is not None:
            seconds = self.leaving_seconds
            await asyncio.gather(self.cluster.drain(seconds), self.cluster.servers.drain(seconds))

    async def drain(self, seconds: float) -> None:
        """Take no new work. What can wait without this process is left to the next one, or to another node.

        Other turns and calls that run end, or are ended, within so many seconds (SPEC A2, G3).
        """
        engine = self.app.engine
        if self.channels is not None:
            await self.channels.stop()
        self._leave_questions()
        if self.cluster is not None and not self.cluster.is_draining:
            await asyncio.gather(self.cluster.drain(0.0), self.cluster.servers.drain(0.0))
        self.peers.stop()
        engine.is_stopping = True
        engine.hand_over_client_calls()
        await asyncio.gather(self.sessions.drain(seconds), *(door.drain(seconds) for door in self.doors.values()))
        if self.channels is not None:
            await self.channels.drain(seconds)

    def _leave_questions(self) -> None:
        """Let the calls that wait for a person wait without this process."""
        engine = self.app.engine
        engine.hands_over = True
        self.questions.hand_over(engine.can_hand_over)

    @property
    def leaving_seconds(self) -> float:
        """Seconds that a node may take to send its clients to other nodes, before its own work ends; alone: none."""
        return 0.0 if self.cluster is None else self.settings.cluster.drain

    def work_left(self) -> tuple[int, int]:
        """Return how many turns and how many other calls run: a gateway that stops waits for them."""
        return self.sessions.count_running(), sum(door.count_running() for door in self.doors.values())

    async def close(self) -> None:
        """Close the doors and all parts."""
        tasks = [task for task in (self._watching, self._choosing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.drain(0)
        self.peers.close()
        for door in self.doors.values():
            await door.close()
        if self.channels is not None:
            await self.channels.close()
        await self._unfinished.close()
        await self._trust.close()
        await self._late.close()
        await self.devices.close()
        await self._close_app()

    async def _close_app(self) -> None:
        if self.cluster is not None:
            await self.cluster.close()
        await self.app.close()

    async def model_choice(self) -> Choice:
        """Return the model for agents that name none, and why. The first caller starts the search for it."""
        if self._choosing is None or self._choosing.cancelled():
            self._choosing = asyncio.create_task(self._choose_model(""))
        return await asyncio.shield(self._choosing)

    def choice_at_once(self) -> Choice:
        """Return the model for agents that name none, as far as it is known now: no local model is looked for."""
        return self._given_model() or self.app.choose_at_once(self._model if isinstance(self._model, str) else "")

    async def reload(self) -> SettingChanges:
        """Take the settings as their files have them now. Raises `ConfigError`, and changes nothing, if that fails."""
        from handspan.gateway.reloading import reload_settings  # noqa: PLC0415 - most gateways never do: start-up counts

        async with self._reloading:
            changes = await reload_settings(self.app)
        self.forget_models()
        for topic in ("agents", "models", "tools"):
            self.live.publish(ALL_OWNERS, topic, {})
        return changes

    def forget_models(self) -> None:
        """Let the next turn choose its model anew: the models have changed."""
        self._choosing = None
        self.sessions.forget_models()

    # Doors.

    @property
    def asgi(self) -> ASGIApp:
        """The application, below the path prefix."""
        prefix = self.settings.gateway.path_prefix
        return with_request_log(PathPrefix(self._enter, prefix) if prefix else self._enter)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or connection."""
        scope = merge_slashes(scope)
        if scope["type"] != "http":
            await self._connect(scope, receive, send)
            return
        admitted = await let_in(self.auth, scope, receive, send)
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
            await self._ws(scope, receive, send)
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

    @property
    def parts(self) -> GatewayParts:
        """The parts that each door gets; complete after `open`."""
        return GatewayParts(
            app=self.app,
            bus=self.bus,
            store=self.store,
            auth=self.auth,
            pairing=self.pairing,
            sessions=self.sessions,
            questions=self.questions,
            devices=self.devices,
            peers=self.peers,
            live=self.live,
            metrics=self.metrics,
            offer_rules=self.offer_rules,
            model_choice=self.model_choice,
            choice_at_once=self.choice_at_once,
            forget_models=self.forget_models,
            cluster=self.cluster,
            channels=self.channels,
            reload=self.reload,
        )

    # Events, and the parts that need them.

    def _subscribe(self) -> None:
        """Subscribe to the bus. Its listeners run before `publish` returns."""
        listen = self.bus.subscribe
        listen(CallCompleted, self._on_call_completed)
        listen(TurnEvent, self._on_turn_event)
        listen(QuestionOpened, lambda event: self._show_question(event.owner, event.question.id, is_open=True))
        listen(QuestionEnded, lambda event: self._show_question(event.owner, event.id, is_open=False))
        listen(ToolsChanged, lambda event: self.live.publish(event.owner, "tools", {}))
        listen(DeviceChanged, lambda event: self.live.publish(event.owner, "devices", {}))
        listen(LoginRequested, lambda event: self.peers.start_login(event.owner, event.call_id, event.question))
        listen(TokenRevoked, lambda event: self.peers.revoke(event.token))
        listen(TokenRevoked, lambda event: self.live.drop(event.token))
        listen(TokenRevoked, lambda event: self._ws.revoke(event.token))
        self._messages.open()

    def _on_call_completed(self, call: CallCompleted) -> None:
        """Count the call, and acknowledge its stored result: only now its device may forget the result (ws.md 5.3)."""
        if not self.bus.is_remote:
            self._acknowledge(call)
            self.metrics.count_call(call)
            if call.tool.answered_by == "request" and call.status == "timeout":
                self._resumable.end_expired(call.id)
        if self.live:
            self.live.publish(call.owner, "calls", {"id": call.id, "tool": call.name, "session": call.session})

    def _acknowledge(self, call: CallCompleted) -> None:
        """Tell the client of the call that its result is stored."""
        client = "" if call.tool.origin is None else call.tool.origin.connection
        peer = self.peers.find(client) if client else None
        if peer is not None:
            peer.calls.acknowledge_stored(call.id)
        elif self.cluster is not None:
            self.cluster.acknowledge(client, call.id)

    def _on_turn_event(self, published: TurnEvent) -> None:
        owner, session, is_here = published.owner, published.session, not self.bus.is_remote
        match published.event:
            case Ended(reason=reason):
                if is_here:
                    self.metrics.turns.add(reason)
                self.live.publish(owner, "sessions", {"id": session, "state": "idle"})
            case RoundBegan(number=1):
                self.live.publish(owner, "sessions", {"id": session, "state": "running"})
            case Titled(title=title):
                self.live.publish(owner, "sessions", {"id": session, "name": title})
            case CallStarted(id=call_id, name=name):
                self.live.publish(owner, "calls", {"id": call_id, "tool": name, "session": session})
            case UsageCounted(usage=usage) if is_here:
                self.metrics.count_usage(usage)

    def _show_question(self, owner: str, question_id: str, *, is_open: bool) -> None:
        self.live.publish(owner, "questions", {"id": question_id, "open": is_open})

    async def _withdraw_question(self, question_id: str, decision: Decision) -> bool:
        """End a question of the operator: the person has done what the question asked for, or can't any more."""
        return await self.questions.answer(question_id, Answer(decision), person(OPERATOR))

    # Inside.

    async def _choose_model(self, named: str) -> Choice:
        """Return the model of this name; without a name the gateway's default."""
        if self._is_inside and isinstance(self._model, str):
            named = self._model or named
        given = None if named else self._given_model()
        if given is not None:
            return given
        return await self.app.choose_model(named or (self._model if isinstance(self._model, str) else ""))

    def _given_model(self) -> Choice | None:
        model = self._model
        if isinstance(model, str):
            return None
        return Choice(model, f"The model is {model.name!r}, which was given to this gateway.")

    async def _model_named(self, named: str) -> Choice:
        """Return the model of this name, or the default model."""
        return await (self._choose_model(named) if named else self.model_choice())

    @property
    def offer_rules(self) -> OfferRules:
        """Rules for the tools that clients offer."""
        settings, remote = self.settings.gateway, self.settings.gateway.remote
        return OfferRules(self._limits, remote.allow, remote.deny, remote.deny_permissions, settings.longest_call)

    def _cluster_parts(self) -> "ClusterParts":
        parts: type[ClusterParts] = vars(importlib.import_module(_CLUSTER))["ClusterParts"]
        return parts(
            app=self.app,
            auth=self.auth,
            sessions=self.sessions,
            questions=self.questions,
            devices=self.devices,
            peers=self.peers,
            unfinished=self._unfinished,
            resumable=self._resumable,
            rules=self.offer_rules,
            pairing=self.pairing,
            late=self._late.take,
            live=self.live,
            metrics=self.metrics,
        )

    def _make_peers(self, key: bytes) -> Peers:
        tokens = ResumeTokens(key)
        grace = self.settings.gateway.resume_grace
        return Peers(self.app.registry, self.offer_rules, tokens, self.devices, self._unfinished, grace, self.bus)

    def _watch_gauges(self) -> None:
        """Add the values that are looked up when the metrics are read."""
        watch = self.metrics.watch
        watch("handspan_connections", "Open WebSocket connections.", lambda: float(len(self._ws.connections)))
        watch("handspan_clients", "Clients that are there, or may come back.", lambda: float(len(self.peers)))
        watch("handspan_devices", "Devices that are there, or may come back.", self._count_devices)
        watch("handspan_open_calls", "Calls that clients have not answered yet.", self._count_open_calls)
        if self.cluster is not None:
            self.metrics.more = self.cluster.metric_lines

    def _count_devices(self) -> float:
        return float(sum(peer.role == "device" for peer in self.peers))

    def _count_open_calls(self) -> float:
        return float(sum(len(peer.calls.open) for peer in self.peers))

    async def _end_expired_calls(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_INTERVAL)
            try:
                await self._resumable.expire()
            except HandspanError as error:
                _log.error("Expired calls could not be ended: %s", error)


def _load_cluster(settings: Settings) -> "Cluster":
    """Load the code for several nodes and return this gateway's `Cluster`. Raises `ConfigError` without its library."""
    try:
        cluster_class: type[Cluster] = vars(importlib.import_module(_CLUSTER))["Cluster"]
    except ModuleNotFoundError as error:
        text = f"cluster.url needs a library that is not installed ({error.name}): pip install 'handspan[cluster]'"
        raise ConfigError(text) from None
    return cluster_class(settings.cluster, settings.gateway.resume_grace, settings.gateway.limits.pending_calls)


def door_of(scope: Scope) -> str:
    """Return the name of the door for this path."""
    path = _path(scope)
    if is_graph(scope):
        return "graph"
    if path == "/mcp" or path.startswith("/mcp/"):
        return "mcp"
    return "pages" if path in ("", "/", "/device") or path.startswith(_FILES) else "rest"


def _path(scope: Scope) -> str:
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path
