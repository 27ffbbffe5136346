"""What nodes say to each other about clients. Fields are only added at the end: versions n and n+1 mix (SPEC K6)."""

import contextlib
from collections.abc import Callable
from typing import Final

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

encode: Final[Callable[[Struct], bytes]] = msgspec.msgpack.Encoder().encode


class ToClient(Struct, frozen=True, array_like=True):
    """A frame for a client, to the node that has its connection."""

    sender: str
    """The node that wants the answers."""
    owner: str
    peer: str
    epoch: int
    """The connection that is meant: a newer one has not seen what came before."""
    frame: bytes = b""
    stored: str = ""
    """The artifact that holds a frame which is too large for a message."""
    caller: str = ""
    """The owner for whom a call of an MCP server runs, which serves all owners."""


class FromClient(Struct, frozen=True, array_like=True):
    """A frame of a client, to the node whose call or question it answers."""

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
    """The call of an MCP server that came too late: it was not run, and another node may run it."""


class ClientMoved(Struct, frozen=True, array_like=True):
    """A newer connection of a client counts from now on, on another node."""

    peer: str
    epoch: int


class ClientDismissed(Struct, frozen=True, array_like=True):
    """A person on another node sent this client away."""

    owner: str
    peer: str
    reason: str


class TurnOffered(Struct, frozen=True, array_like=True):
    """A turn was handed over: the receiver may go on with it. The database says whether that is so."""

    owner: str
    session: str


class ProbedClient(Struct, frozen=True, array_like=True):
    """Calls that wait for one client."""

    peer: str
    epoch: int
    calls: tuple[str, ...] = ()


class Probe(Struct, frozen=True, array_like=True):
    """Asks a node which of these calls it knows. It sends the answers that it has once more."""

    sender: str
    clients: tuple[ProbedClient, ...]


class Probed(Struct, frozen=True, array_like=True):
    """What the node does not know."""

    unknown: tuple[ProbedClient, ...]
    """Calls that never came, or whose client has no such connection here: then it has none of its calls."""
    gone: tuple[str, ...]
    """Clients that have no such connection here."""


class CallQuestion(Struct, frozen=True, array_like=True):
    """An MCP server asks the person for whom a call runs, at the node of the caller."""

    peer: str
    call: str
    id: str
    """The same when it is asked again."""
    asked: ToolQuestion


class CallAnswer(Struct, frozen=True, array_like=True):
    """The answer to that."""

    peer: str
    call: str
    id: str
    answer: Answer
    waited: float = 0.0
    """Seconds by which the deadline of the call has moved."""
    error: str = ""
    """Why no person could be asked."""


def refuse_question(question: CallQuestion) -> CallAnswer:
    """Return the answer to a question of a call that another node has taken over."""
    text = "The node at which this call began is gone: its person can't be asked any more."
    return CallAnswer(question.peer, question.call, question.id, Answer("deny"), error=text)


class TrustServer(Struct, frozen=True, array_like=True):
    """A person at another node accepts the definitions of an MCP server as they are now."""

    name: str


class TrustedServer(Struct, frozen=True, array_like=True):
    """The tools whose definitions were accepted."""

    tools: list[str]


class FrameHead(Struct, frozen=True):
    """What has to be known of a frame on its way."""

    type: str
    id: str = ""
    ids: tuple[str, ...] = ()
    retry: int = 0


_head: Final = msgspec.json.Decoder(FrameHead)


def read_head(frame: bytes) -> FrameHead:
    """Return the head of a frame of ours."""
    return _head.decode(frame)


class LargeFrames:
    """Frames that are too large for a message: they are stored for their owner, and the message names them."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self._artifacts = artifacts

    async def keep(self, frame: bytes, owner: str) -> str:
        """Store the frame and return its id. Raises `ToolError` when it can't be stored."""
        ref = await self._artifacts.keep(frame, owner=owner, media_type=_MEDIA_TYPE, name="between nodes")
        return ref.id

    async def read(self, stored: str, owner: str) -> bytes | None:
        """Return the frame; None when it is not there any more."""
        try:
            return await self._artifacts.read(stored, owner=owner)
        except ToolError:
            return None

    async def take(self, stored: str, owner: str) -> bytes | None:
        """Return a frame that is read once, and remove it; None when it is not there any more."""
        frame = await self.read(stored, owner)
        await self.remove(stored, owner)
        return frame

    async def remove(self, stored: str, owner: str) -> None:
        """Remove a frame that has arrived. One that can't be removed now goes when it is too old."""
        with contextlib.suppress(StoreError):
            await self._artifacts.remove(stored, owner=owner)


def is_large(frame: bytes) -> bool:
    """Whether a frame is stored instead of sent."""
    return len(frame) > LARGEST_MESSAGE
