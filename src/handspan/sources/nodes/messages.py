"""The messages between nodes about clients. Fields are only added at the end: versions n and n+1 mix (SPEC K6).

Subjects: owners and sessions are hashed in them, INCARNATION is the id of the node that gets the message.

hs1.n.INCARNATION.to: a frame for a client, with the epoch of the connection that is meant (caller → owner of the
    socket)
hs1.n.INCARNATION.from: an answer, progress, or a person's answer at the device (owner → caller)
hs1.n.INCARNATION.probe: the ids that wait; the response names those that never came (caller → owner, request)
hs1.n.INCARNATION.turn: a turn was handed over: look whether it is to be had (a node that stops → one with few
    turns)
hs1.n.INCARNATION.gone, moved, dismiss: a connection is gone; a newer one counts elsewhere; a person sent it away
    (owner ↔ others)
hs1.n.INCARNATION.ask, answer, trust: an MCP server asks the person of a call; a person accepts its changed tools
    (owner ↔ caller)
hs1.n.INCARNATION.http, http_part, http_seen, http_left, http_probe: a request that is passed on, its response in
    numbered parts (node ↔ node)
hs1.o.OWNER: events of `core/bus.py` (any → nodes where the owner is at work)
hs1.s.SESSION: what happens in a turn (the turn's node → nodes where a client shows it)
hs1.all: revoked tokens, tries, switches (any → all)

Every message has a signature with a key of the database, bound to its subject, the sender's incarnation and a number
that grows with each of its messages: a copy of a message, and one of an incarnation that has no row, is dropped
(`bus/senders.py`). Frames above 256 KB are stored as artifacts, and the message names them.
"""

import contextlib
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from handspan.core.errors import StoreError, ToolError
from handspan.core.nodes import LARGEST_MESSAGE
from handspan.core.questions import Answer, ToolQuestion
from handspan.core.store import ArtifactStore

TO_CLIENT: Final = "to"
FROM_CLIENT: Final = "from"
GONE: Final = "gone"
MOVED: Final = "moved"
PROBE: Final = "probe"
DISMISS: Final = "dismiss"
TURN: Final = "turn"
ASK: Final = "ask"
ANSWER: Final = "answer"
TRUST: Final = "trust"

_MEDIA_TYPE: Final = "application/json"
_T = TypeVar("_T")

encode: Final[Callable[[Struct], bytes]] = msgspec.msgpack.Encoder().encode
Read: TypeAlias = Callable[[bytes], bytes | None]
"""Does what a message says, and returns the response, if the message is a request. Raises `msgspec.DecodeError`."""


def read_by(message: type[_T], take: Callable[[_T], bytes | None]) -> Read:
    """Return what decodes messages of this type and gives them to `take`."""
    decoder = msgspec.msgpack.Decoder(message)
    return lambda body: take(decoder.decode(body))


class ToClient(Struct, frozen=True, array_like=True):
    """A frame for a client; goes to the node that has the client's connection."""

    sender: str
    """The node that wants the answers."""
    owner: str
    peer: str
    epoch: int
    """The connection that is meant: a newer connection has not seen the frames before this one."""
    frame: bytes = b""
    stored: str = ""
    """The artifact that holds a frame which is too large for a message."""
    caller: str = ""
    """The owner for whom a call of an MCP server runs; empty for clients, because `owner` says it."""


class FromClient(Struct, frozen=True, array_like=True):
    """A frame of a client; goes to the node whose call or question it answers."""

    owner: str
    peer: str
    frame: bytes = b""
    stored: str = ""
    call: str = ""
    """The call that a stored frame answers."""


class ClientLost(Struct, frozen=True, array_like=True):
    """The connection of a client is gone, or was replaced."""

    owner: str
    peer: str
    epoch: int
    is_over: bool = False
    """Whether the client can't come back."""
    why: str = ""
    not_run: str = ""
    """A call that came too late to an MCP server: this node has not run it, and another node may run it."""
    is_moving: bool = False
    """Whether this node has sent the client to another node: its tools stay, and its calls wait for it."""


class ClientMoved(Struct, frozen=True, array_like=True):
    """A newer connection of a client, to another node, counts from now on."""

    peer: str
    epoch: int


class ClientDismissed(Struct, frozen=True, array_like=True):
    """A person on another node sent this client away."""

    owner: str
    peer: str
    reason: str


class TurnOffered(Struct, frozen=True, array_like=True):
    """A turn was handed over: the receiver may go on with it, if the database says that no other node does."""

    owner: str
    session: str


class ProbedClient(Struct, frozen=True, array_like=True):
    """Calls that wait for one client."""

    peer: str
    epoch: int
    calls: tuple[str, ...] = ()


class Probe(Struct, frozen=True, array_like=True):
    """Asks a node which of these calls it knows. The node sends the answers that it has once more."""

    sender: str
    clients: tuple[ProbedClient, ...]


class Probed(Struct, frozen=True, array_like=True):
    """The answer to a `Probe`: what the node does not know."""

    unknown: tuple[ProbedClient, ...]
    """Calls that never came over the connections of the probe."""
    gone: tuple[str, ...]
    """Clients whose connection of the probe is gone, with all of its calls."""
    moving: tuple[str, ...] = ()
    """Clients that the node has sent to another node."""


class CallQuestion(Struct, frozen=True, array_like=True):
    """An MCP server asks the person for whom a call runs, at the node of the caller."""

    peer: str
    call: str
    id: str
    """Stays the same when the question is sent again."""
    asked: ToolQuestion


class CallAnswer(Struct, frozen=True, array_like=True):
    """The answer to a `CallQuestion`."""

    peer: str
    call: str
    id: str
    answer: Answer
    waited: float = 0.0
    """Seconds by which the deadline of the call has moved."""
    error: str = ""
    """Why no person could be asked."""


def refuse_question(
    question: CallQuestion, why: str = "The node at which this call began is gone: its person can't be asked any more."
) -> CallAnswer:
    """Return the answer to a question that no person can be asked, such as that of a call at another node by now."""
    return CallAnswer(question.peer, question.call, question.id, Answer("deny"), error=why)


class TrustServer(Struct, frozen=True, array_like=True):
    """A person at another node accepts the definitions of an MCP server as they are now."""

    name: str


class TrustedServer(Struct, frozen=True, array_like=True):
    """The tools whose definitions were accepted."""

    tools: list[str]


class FrameHead(Struct, frozen=True):
    """The fields of a frame that a node needs to pass the frame on."""

    type: str
    id: str = ""
    ids: tuple[str, ...] = ()
    retry: int = 0


read_head: Final = msgspec.json.Decoder(FrameHead).decode
"""Returns the head of a frame that a node has encoded."""


class LargeFrames:
    """Stores frames that are too large for a message; the message names them."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self._artifacts = artifacts

    async def keep(self, frame: bytes, owner: str) -> str:
        """Store the frame for its owner and return its id. Raises `ToolError` when it can't be stored."""
        ref = await self._artifacts.keep(frame, owner=owner, media_type=_MEDIA_TYPE, name="between nodes")
        return ref.id

    async def read(self, stored: str, owner: str) -> bytes | None:
        """Return the frame; None when the store does not have it any more."""
        try:
            return await self._artifacts.read(stored, owner=owner)
        except ToolError:
            return None

    async def take(self, stored: str, owner: str) -> bytes | None:
        """Return a frame that is read only once, and remove it; None when the store does not have it any more."""
        frame = await self.read(stored, owner)
        await self.remove(stored, owner)
        return frame

    async def remove(self, stored: str, owner: str) -> None:
        """Remove a frame that has arrived. If that fails, the frame is removed by its age later."""
        with contextlib.suppress(StoreError):
            await self._artifacts.remove(stored, owner=owner)


def is_large(frame: bytes) -> bool:
    """Whether a frame is too large for a message, so that it has to be stored."""
    return len(frame) > LARGEST_MESSAGE
