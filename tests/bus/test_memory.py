"""The bus inside one process: what its strict mode refuses, and what is said of slow listeners."""

import pytest

from handspan.bus.memory import MemoryBus
from handspan.core.bus import ToolsChanged, TurnEvent
from handspan.core.events import CallProgress
from handspan.core.values import Json


def test_the_strict_bus_hands_over_a_copy_and_refuses_what_is_not_plain() -> None:
    bus = MemoryBus(strict=True)
    arrived: list[TurnEvent] = []
    bus.subscribe(TurnEvent, arrived.append)
    value: Json = {"a": [1]}
    bus.publish(TurnEvent("ann", "s", "t", CallProgress("c", "pay", value)))
    assert isinstance(arrived[0].event, CallProgress)
    assert arrived[0].event.value == value and arrived[0].event.value is not value
    with pytest.raises(TypeError):
        bus.publish(TurnEvent("ann", "s", "t", CallProgress("c", "pay", object())))  # type: ignore[arg-type] # the point
    assert len(arrived) == 1


def test_the_strict_bus_looks_at_events_without_listeners_too() -> None:
    with pytest.raises(TypeError):
        MemoryBus(strict=True).publish(ToolsChanged(object()))  # type: ignore[arg-type] # the point


def test_listeners_that_hold_up_the_publisher_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0

    def work(event: ToolsChanged) -> None:
        nonlocal now
        now += float(event.owner)

    bus = MemoryBus(clock=lambda: now)
    bus.subscribe(ToolsChanged, work)
    bus.publish(ToolsChanged("0.4"))
    assert caplog.text == ""
    bus.publish(ToolsChanged("2.0"))
    assert "The listeners for ToolsChanged took 2.0 s" in caplog.text
