"""A gateway process with faults inside, for the tests: `python -m tests.chaos.nodes.child OPTIONS OF handspan.testing`.

The variable CHAOS_NODE (see `ChildFaults`) says which faults. Nothing of it is in the product: functions are wrapped
where a step of a conversation passes. SIGUSR1 lets the process write what it holds open.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from handspan.agent.conversation import StoredLog
from handspan.bus.link import NatsLink
from handspan.bus.signing import Signing
from handspan.core.messages import AssistantMessage, Message, ResultsMessage
from handspan.engine.engine import Engine
from handspan.gateway.nodes.cluster import Cluster
from handspan.sources.nodes.mirror import Mirror
from handspan.sources.ws.calls import RemoteCalls
from handspan.testing import __main__ as testing
from handspan.testing.spoken import Spoken

VARIABLE: Final = "CHAOS_NODE"
POINTS: Final = (
    "before the call is stored",
    "after the call is stored",
    "before the call is sent",
    "before the result is taken",
    "before the result is stored",
    "before the model is asked",
)
"""Where a step of a conversation can be cut off."""


class ChildFaults(Struct, frozen=True):
    """What goes wrong in a process."""

    armed: str = ""
    """A file. While it has one of `POINTS` and, in the next line, a word, the process kills itself at that point of a
    step that has to do with the word. It removes the file before.
    """
    report: str = ""
    """The file that gets a `ChildReport` at SIGUSR1."""
    lost: float = 0.0
    """The share of its messages to other nodes that are lost."""
    doubled: float = 0.0
    seed: int = 0
    is_newer: bool = False
    """Its messages have a field more than this version knows, as those of a later version may."""


class ChildReport(Struct, frozen=True):
    """What a process holds open."""

    tasks: dict[str, int]
    """By the name of their coroutine."""
    subscriptions: list[str]


def install(faults: ChildFaults) -> None:
    """Wrap what has to fail."""
    if faults.armed:
        _kill_at_points(Path(faults.armed))
    if faults.lost or faults.doubled:
        _lose(faults.lost, faults.doubled, random.Random(faults.seed))
    if faults.is_newer:
        _add_fields()
    if faults.report:
        _report_to(Path(faults.report))


def _kill_at_points(armed: Path) -> None:
    def pass_point(point: str, about: object) -> None:
        """Die here, if that is wanted."""
        if armed.exists():
            wanted, _, word = armed.read_text().partition("\n")
            if wanted == point and word in str(about):
                armed.unlink()
                os.kill(os.getpid(), signal.SIGKILL)

    append = StoredLog.append

    def log(self: StoredLog, session: str, message: Message, after: int) -> Any:
        if isinstance(message, AssistantMessage) and message.calls:
            pass_point(POINTS[0], message)
        elif isinstance(message, ResultsMessage):
            pass_point(POINTS[4], message)
        return append(self, session, message, after)

    StoredLog.append = log  # type: ignore[method-assign] # a wire of the test, as all below
    _before(Engine, "begin", lambda call: pass_point(POINTS[1], call.arguments))
    _before(RemoteCalls, "_request", lambda call: pass_point(POINTS[2], call.arguments))
    _before(Mirror, "_take_answer", lambda frame: pass_point(POINTS[3], frame))
    _before(Spoken, "reply", lambda projection: _pass_model(projection, pass_point))


def _pass_model(projection: Any, pass_point: Callable[[str, object], None]) -> None:
    if isinstance(projection.messages[-1], ResultsMessage):
        pass_point(POINTS[5], projection.messages[-1])


def _before(owner: type, name: str, act: Callable[[Any], None]) -> None:
    """Let `act` see the first argument of this method before it is called."""
    original = vars(owner)[name]

    def wrapped(self: Any, first: Any, *given: Any, **more: Any) -> Any:
        act(first)
        return original(self, first, *given, **more)

    setattr(owner, name, wrapped)


def _lose(lost: float, doubled: float, chance: random.Random) -> None:
    """Lose and double what this process publishes, and the requests that it makes of other nodes."""
    publish, request = NatsLink.publish, NatsLink.request

    def unreliable(self: NatsLink, subject: str, body: bytes) -> None:
        for _ in range(0 if (drawn := chance.random()) < lost else 2 if drawn < lost + doubled else 1):
            publish(self, subject, body)

    async def unanswered(self: NatsLink, node: str, kind: str, body: bytes, seconds: float) -> bytes:
        if chance.random() < lost:
            await asyncio.sleep(seconds)
            raise TimeoutError
        return await request(self, node, kind, body, seconds)

    NatsLink.publish = unreliable  # type: ignore[method-assign]
    NatsLink.request = unanswered  # type: ignore[method-assign]


def _add_fields() -> None:
    """Add a field to whatever is signed: messages are arrays, and events in them are objects."""
    sign, sign_message = Signing.sign, Signing.sign_message

    def newer(self: Signing, subject: str, body: bytes) -> bytes:
        return sign(self, subject, add_unknown_fields(body))

    def newer_message(self: Signing, subject: str, body: bytes) -> bytes:
        return sign_message(self, subject, add_unknown_fields(body))

    Signing.sign = newer  # type: ignore[method-assign]
    Signing.sign_message = newer_message  # type: ignore[method-assign]


def add_unknown_fields(body: bytes) -> bytes:
    """Return the message as a later version could send it: with a field more, also in the event inside it."""
    fields = msgspec.msgpack.decode(body)
    fields = [{**one, "of a later version": [1]} if isinstance(one, dict) else one for one in fields]
    return msgspec.msgpack.encode([*fields, {"of": "a later version"}])


def _report_to(file: Path) -> None:
    open_cluster = Cluster.open

    async def noted(self: Cluster) -> None:
        await open_cluster(self)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _write_report, self, file)

    Cluster.open = noted  # type: ignore[method-assign]


def _write_report(cluster: Cluster, file: Path) -> None:
    names = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    report = ChildReport(dict(names), sorted(cluster.link._subscriptions))
    file.with_suffix(".new").write_bytes(msgspec.json.encode(report))
    file.with_suffix(".new").replace(file)


if __name__ == "__main__":
    install(msgspec.json.decode(os.environ.get(VARIABLE, "{}"), type=ChildFaults))
    testing.main()
