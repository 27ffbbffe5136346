"""What this node does at each event of another node. An event may be lost: regular looks find the same, only later."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

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
    TurnEvent,
)
from handspan.core.errors import HandspanError
from handspan.gateway.nodes.turns import TurnsElsewhere
from handspan.gateway.parts import Here
from handspan.sources.nodes.mirrors import Mirrors

_log = logging.getLogger(__name__)


class NodeEvents:
    """Listens for events of other nodes."""

    def __init__(
        self,
        bus: NatsBus,
        here: Here,
        mirrors: Mirrors,
        turns: TurnsElsewhere,
        *,
        revoked: BoundedDict[str, None],
        start: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`revoked`: the tokens that this node knows to be revoked; `NodeEvents` adds to them.

        `start` does work in a task of its own.
        """
        self._bus = bus
        self._here = here
        self._mirrors = mirrors
        self._turns = turns
        self._revoked = revoked
        self._start = start

    def open(self) -> None:
        """Begin to listen."""
        listen = self._bus.subscribe
        listen(ToolsChanged, self._on_tools)
        listen(SwitchesChanged, self._on_switches)
        listen(DeviceChanged, self._on_device)
        listen(TurnEvent, self._on_turn)
        listen(TokenRevoked, self._on_revoked)
        listen(QuestionEnded, self._on_question)
        listen(AbortRequested, self._on_abort)
        listen(RulesForgotten, self._on_rules)

    def _on_tools(self, event: ToolsChanged) -> None:
        if self._bus.is_remote:
            self._mirrors.hint(event.owner)

    def _on_switches(self, event: SwitchesChanged) -> None:
        if self._bus.is_remote:
            self._start(self._read_switches())

    def _on_device(self, event: DeviceChanged) -> None:
        if self._bus.is_remote:
            self._here().devices.mark_stale(event.owner)

    def _on_turn(self, event: TurnEvent) -> None:
        if self._bus.is_remote:
            self._turns.on_event(event)

    def _on_revoked(self, event: TokenRevoked) -> None:
        self._revoked[event.token] = None
        if self._bus.is_remote:
            self._here().auth.note_revoked(event.token)

    def _on_question(self, event: QuestionEnded) -> None:
        if self._bus.is_remote:
            self._here().questions.wake(event.id)

    def _on_abort(self, event: AbortRequested) -> None:
        if self._bus.is_remote:
            self._turns.on_abort(event)

    def _on_rules(self, event: RulesForgotten) -> None:
        if self._bus.is_remote:
            self._here().app.engine.forget_answers(event.tool, event.owner)

    async def _read_switches(self) -> None:
        try:
            await self._here().app.follow_switches()
        except HandspanError as error:
            _log.warning("The switches of tools could not be read: %s", error)
