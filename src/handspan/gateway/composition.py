"""The whole gateway, put together from top to bottom: each part gets what it needs through its constructor."""

import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import structs

from handspan.agent.children import Children
from handspan.agent.sessions import Sessions
from handspan.config.load import LoadedSettings
from handspan.config.settings import Settings
from handspan.gateway.app import App
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.late_results import LateResults
from handspan.gateway.clients.messages import ClientMessages
from handspan.gateway.clients.peers import Peers
from handspan.gateway.clients.resume_tokens import ResumeTokens
from handspan.gateway.clients.trust import DeviceTrust
from handspan.gateway.clients.unfinished_calls import UnfinishedCalls
from handspan.gateway.default_model import DefaultModel
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.live import Live
from handspan.gateway.metrics import Metrics
from handspan.gateway.nodes.choice import make_nodes
from handspan.gateway.parts import GatewayParts
from handspan.gateway.push.push import Push
from handspan.gateway.reloading import Reloading
from handspan.gateway.schedules.scheduler import Scheduler
from handspan.gateway.schedules.turns import ScheduledTurns
from handspan.gateway.sessions.brief import BriefSessions
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.gateway.sessions.resumable_calls import ResumableCalls
from handspan.gateway.stores import make_store
from handspan.models.model import Model
from handspan.net.guard import NetGuard
from handspan.sources.offers import OfferRules
from handspan.wire.ws_frames import WireLimits

if TYPE_CHECKING:
    from handspan.gateway.channels.door import ChannelDoor
    from handspan.gateway.runs.runs import Runs

_CHANNELS: Final = "handspan.gateway.channels.door"
"""Loaded only with the setting `channels`."""
_RUNS: Final = "handspan.gateway.runs.runs"
"""Loaded with the first request of a client that may have tools of its own."""


def compose(
    settings: Settings,
    config_folder: Path | None,
    *,
    model: str | Model,
    is_inside: bool,
    loaded: LoadedSettings | None,
) -> GatewayParts:
    """Return all parts of a gateway with these settings, none of them open. For the parameters see `Gateway`.

    A part that is made before another one and uses it later gets a function that returns it.
    """
    gateway = settings.gateway
    guard = NetGuard(settings.tools.url_policy)
    store = make_store(settings, guard, is_alone=not is_inside)
    nodes = make_nodes(settings, store, lambda: parts, is_inside=is_inside)
    live, metrics = Live(), Metrics(nodes)
    messages = ClientMessages(nodes, live, lambda: parts.peers, lambda message: parts.push.tell_message(message))
    questions = AwaitedQuestions(nodes, store.questions, lambda question: parts.resumable.resume_answered(question))
    app = App(
        settings,
        questions,
        config_folder,
        store=store,
        guard=guard,
        nodes=nodes,
        starts_servers=not is_inside,
        loaded=loaded,
        show_message=messages.show,
        explain_absence=lambda owner, tool: parts.devices.explain_absence(owner, tool),
    )
    auth = Auth(settings, store.tokens, nodes)
    models = DefaultModel(app, model, is_inside=is_inside)
    sessions = Sessions(store.conversations, app.loader, app.agents, models.find, nodes=nodes)
    children = Children(store, app.engine, app.agents, sessions, registry=app.registry)
    resumable = ResumableCalls(store, app.engine, app.loader, app.agents, sessions=sessions, children=children)
    resume, workspace = sessions.resume_turn, settings.workspace
    unfinished = UnfinishedCalls(app.engine, store, questions, app.artifacts, workspace=workspace, resume_turn=resume)
    limits = msgspec.convert(structs.asdict(gateway.limits), WireLimits)
    remote = gateway.remote
    rules = OfferRules(limits, remote.allow, remote.deny, remote.deny_permissions, longest_call=gateway.longest_call)
    devices = Devices(store.devices, keeper=app.registry.rights.find_keeper)
    tokens = ResumeTokens()
    peers = Peers(app.registry, rules, tokens, devices, unfinished=unfinished, grace=gateway.resume_grace, nodes=nodes)
    channels: ChannelDoor | None = None
    if len(app.messages):
        make_channels: type[ChannelDoor] = importlib.import_module(_CHANNELS).ChannelDoor
        channels = make_channels(app.messages, store.channels, sessions, questions, nodes=nodes)

    def is_in_view(owner: str, session: str) -> bool:
        is_in_chat = channels is not None and channels.shows(session)
        return live.count(owner) > 0 or peers.has_chat(owner, session) or is_in_chat

    push = Push(store, questions, nodes, guard, settings=settings.push, is_in_view=is_in_view)
    turns = ScheduledTurns(store.schedules, sessions, app.agents, app.delivery, show=messages.show)

    @cache
    def runs() -> "Runs":
        make: type[Runs] = importlib.import_module(_RUNS).Runs
        expires = app.settings.gateway.browser_call
        return make(store, app.engine, sessions, app.registry, rules=rules, expires=expires)

    parts = GatewayParts(
        settings=settings,
        nodes=nodes,
        bus=nodes.bus,
        store=store,
        app=app,
        artifacts=app.artifacts,
        auth=auth,
        pairing=Pairing(auth, nodes),
        sessions=sessions,
        questions=questions,
        resumable=resumable,
        brief=BriefSessions(store, sessions),
        devices=devices,
        unfinished=unfinished,
        resume_tokens=tokens,
        peers=peers,
        late=LateResults(store.ledger, limits.pending_calls, metrics.results.add),
        trust=DeviceTrust(questions),
        push=push,
        limits=limits,
        offer_rules=rules,
        live=live,
        metrics=metrics,
        models=models,
        reloading=Reloading(app, live, lambda: parts.forget_models()),
        channels=channels,
        scheduler=Scheduler(store, turns, nodes, settings.schedules),
        runs=runs,
    )
    return parts
