"""What this node does at each event of another node. An event may be lost: regular looks find the same, only later."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from handspan.bus.nats import NatsBus
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


def listen_to_nodes(
    bus: NatsBus,
    here: Here,
    mirrors: Mirrors,
    turns: TurnsElsewhere,
    *,
    start: Callable[[Coroutine[Any, Any, None]], Any],
) -> None:
    """Do from now on what events of other nodes ask for. `start` does work in a task of its own."""
    listen = bus.subscribe_elsewhere
    listen(ToolsChanged, lambda event: mirrors.hint(event.owner))
    listen(SwitchesChanged, lambda _: start(_read_switches(here)))
    listen(DeviceChanged, lambda event: here().devices.mark_stale(event.owner))
    listen(TurnEvent, turns.on_event)
    listen(TokenRevoked, lambda event: here().auth.note_revoked(event.token))
    listen(QuestionEnded, lambda event: here().questions.wake(event.id))
    listen(AbortRequested, turns.on_abort)
    listen(RulesForgotten, lambda event: here().app.engine.asker.forget(event.tool, event.owner))


async def _read_switches(here: Here) -> None:
    try:
        await here().app.follow_switches()
    except HandspanError as error:
        _log.warning("The switches of tools could not be read: %s", error)
