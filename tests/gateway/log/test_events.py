"""Lines about calls, turns and questions: enough to see what happens, and never more than a reader can take."""

import logging

import pytest

from handspan.bus.memory import MemoryBus
from handspan.core.bus import CallCompleted, QuestionEnded, TokenRevoked, TurnEvent
from handspan.core.calls import ToolFacts
from handspan.core.events import Compacted, Ended, RetryComing, TextArrived
from handspan.core.principals import Origin
from handspan.gateway.log.events import EventLog

pytestmark = pytest.mark.anyio
FACTS = ToolFacts(Origin("device", "phone"), "1.0.0", True)


@pytest.fixture
def bus(caplog: pytest.LogCaptureFixture) -> MemoryBus:
    caplog.set_level(logging.DEBUG, "handspan")
    return MemoryBus()


def call(status: str = "success", number: int = 1) -> CallCompleted:
    return CallCompleted("operator", "s", f"id-{number}", "phone__battery", FACTS, status, 0.0123)


async def test_a_call_has_a_line_with_its_duration_its_end_and_its_id(
    bus: MemoryBus, caplog: pytest.LogCaptureFixture
) -> None:
    EventLog().follow(bus)
    for status in ("success", "timeout", "policy_denied"):
        bus.publish(call(status))
    assert [record.getMessage() for record in caplog.records] == [
        "call phone__battery: success in 12 ms (id-1)",
        "call phone__battery: failed after 12 ms, timeout (id-1)",
        "call phone__battery: refused, policy_denied (id-1)",
    ]
    fields = vars(caplog.records[0])
    assert (fields["tool"], fields["status"], fields["origin"]) == ("phone__battery", "success", "device")


async def test_many_calls_are_counted_and_a_failure_among_them_is_seen(
    bus: MemoryBus, caplog: pytest.LogCaptureFixture
) -> None:
    log = EventLog()
    log.follow(bus)
    for number in range(5000):
        bus.publish(call(number=number))
    bus.publish(call("timeout"))
    assert len(caplog.records) == 11 and "timeout" in caplog.records[-1].getMessage()
    log.close()
    assert caplog.records[-1].getMessage() == "4,990 more calls in this second: 4,990 success"


async def test_verbose_has_a_line_for_every_call(bus: MemoryBus, caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(logs_each_call=True)
    log.follow(bus)
    for number in range(100):
        bus.publish(call(number=number))
    log.close()
    assert len(caplog.records) == 100


async def test_turns_that_fail_retries_answers_and_revocations_are_logged_and_words_are_not(
    bus: MemoryBus, caplog: pytest.LogCaptureFixture
) -> None:
    EventLog().follow(bus)
    for event in (TextArrived("my secret"), RetryComing("HTTP 429", 2.0), Ended("error", "No key"), Ended("aborted")):
        bus.publish(TurnEvent("operator", "s", "t", event))
    bus.publish(TurnEvent("operator", "s", "t", Compacted(900, 400, 7, 3, "my secret")))
    bus.publish(QuestionEnded("operator", "s", "c", "q", "approval", "deny"))
    bus.publish(TokenRevoked("operator", "hash-of-it-which-is-long"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "the model could not answer (HTTP 429): it is asked again in 2 s"),
        ("WARNING", "turn in s failed: No key"),
        ("INFO", "turn in s ended: aborted"),
        ("INFO", "the context of s went from about 900 to 400 tokens, with 3 messages in a summary"),
        ("INFO", "question q ended: deny"),
        ("INFO", "a token of operator was revoked: hash-of-it-which"),
    ]
