"""What this node does at each event of another node. An event may be lost: regular looks find the same, only later."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from handspan.agent.sessions import Sessions
from handspan.bus.nats import NatsBus
from handspan.core.bounded import BoundedDict
from handspan.core.bus import (
    AbortRequested,
    DeviceChanged,
    QuestionEnded,
    RulesForgotten,
    SwitchesChanged,
    TokenRevoked,
    ToolsChanged,
    TryNoted,
    TurnEvent,
)
from handspan.core.errors import HandspanError
from handspan.gateway.app import App
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.late_results import TakeLate
from handspan.gateway.clients.peers import Peers
from handspan.gateway.clients.unfinished_calls import UnfinishedCalls
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.live import Live
from handspan.gateway.metrics import Metrics
from handspan.gateway.nodes.turns import TurnsElsewhere
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.gateway.sessions.resumable_calls import ResumableCalls
from handspan.sources.nodes.mirrors import Mirrors
from handspan.sources.offers import OfferRules

_log = logging.getLogger(__name__)


class ClusterParts(Struct, frozen=True, kw_only=True):
    """The parts of the gateway that work with other nodes."""

    app: App
    auth: Auth
    sessions: Sessions
    questions: AwaitedQuestions
    devices: Devices
    peers: Peers
    unfinished: UnfinishedCalls
    resumable: ResumableCalls
    rules: OfferRules
    pairing: Pairing
    late: TakeLate
    live: Live
    metrics: Metrics


class NodeEvents:
    """Listens for events of other nodes."""

    def __init__(
        self,
        bus: NatsBus,
        parts: ClusterParts,
        mirrors: Mirrors,
        turns: TurnsElsewhere,
        revoked: BoundedDict[str, None],
    ) -> None:
        """`revoked`: the tokens that this node knows to be revoked; `NodeEvents` adds to them."""
        self._bus = bus
        self._parts = parts
        self._mirrors = mirrors
        self._turns = turns
        self._revoked = revoked
        self._start: Callable[[Coroutine[Any, Any, None]], None]

    def open(self, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Begin to listen. `start` does work in a task of its own."""
        self._start = start
        listen = self._bus.subscribe
        listen(ToolsChanged, self._on_tools)
        listen(SwitchesChanged, self._on_switches)
        listen(DeviceChanged, self._on_device)
        listen(TurnEvent, self._on_turn)
        listen(TokenRevoked, self._on_revoked)
        listen(QuestionEnded, self._on_question)
        listen(AbortRequested, self._on_abort)
        listen(RulesForgotten, self._on_rules)
        self.share_tries("token", self._parts.auth.tries)
        self.share_tries("pairing", self._parts.pairing.tries)

    def share_tries(self, kind: str, limit: TryLimit) -> None:
        """Let this limit count the tries of all nodes together."""

        def on_try(event: TryNoted) -> None:
            if self._bus.is_remote and event.kind == kind:
                limit.count(event.address)

        limit.noted = lambda address: self._bus.publish(TryNoted("", kind, address))
        self._bus.subscribe(TryNoted, on_try)

    def _on_tools(self, event: ToolsChanged) -> None:
        if self._bus.is_remote:
            self._mirrors.hint(event.owner)

    def _on_switches(self, event: SwitchesChanged) -> None:
        if self._bus.is_remote:
            self._start(self._read_switches())

    def _on_device(self, event: DeviceChanged) -> None:
        if self._bus.is_remote:
            self._parts.devices.mark_stale(event.owner)

    def _on_turn(self, event: TurnEvent) -> None:
        if self._bus.is_remote:
            self._turns.on_event(event)

    def _on_revoked(self, event: TokenRevoked) -> None:
        self._revoked[event.token] = None
        if self._bus.is_remote:
            self._parts.auth.note_revoked(event.token)

    def _on_question(self, event: QuestionEnded) -> None:
        if self._bus.is_remote:
            self._parts.questions.wake(event.id)

    def _on_abort(self, event: AbortRequested) -> None:
        if self._bus.is_remote:
            self._turns.on_abort(event)

    def _on_rules(self, event: RulesForgotten) -> None:
        if self._bus.is_remote:
            self._parts.app.engine.forget_answers(event.tool, event.owner)

    async def _read_switches(self) -> None:
        try:
            await self._parts.app.follow_switches()
        except HandspanError as error:
            _log.warning("The switches of tools could not be read: %s", error)
