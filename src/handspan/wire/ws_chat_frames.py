"""The frames of a conversation (`protocol/ws.md`), one class each. Fields have the names of the protocol."""

from typing import Annotated, Literal

from msgspec import Meta, field

from handspan.core.questions import QuestionAction
from handspan.core.values import Json
from handspan.wire.ws_frames import Decision, MediaPart, WsFrame

# From the client.


class Say(WsFrame, frozen=True, tag="message"):
    """A message of a person."""

    content: Json = ""
    debug: bool = False
    join: bool = False
    id: Annotated[str, Meta(max_length=64)] = ""
    """Chosen by the client, unique in the session. The client may send the message again with the same id."""
    parts: list[MediaPart] = field(default_factory=list)
    """Images, sounds and files of the person."""
    replaces: Annotated[int, Meta(ge=0)] = 0
    """The number (`seq` in REST) of the person's message in whose place this one stands."""

    @property
    def text(self) -> str:
        """The content, if it is text. Else empty."""
        return self.content if isinstance(self.content, str) else ""


class Abort(WsFrame, frozen=True, tag="abort"):
    """Stop the turn."""


class Regenerate(WsFrame, frozen=True, tag="regenerate"):
    """Answer the last message again."""

    debug: bool = False


class AnswerFrame(WsFrame, frozen=True, tag="answer"):
    """A person's answer to a question."""

    id: str
    decision: Decision
    always: bool = False
    arguments: dict[str, Json] | None = None
    value: Json = None
    reason: Annotated[str, Meta(max_length=1000)] = ""
    """With a no: why, in words that the model reads."""


# From the gateway.


class SessionStart(WsFrame, frozen=True, tag="session_start"):
    """The gateway's first frame."""

    v: int
    session_id: str
    resumed: bool
    message_count: int
    name: str = ""
    persona: str = ""


class MessageAccepted(WsFrame, frozen=True, tag="message_accepted"):
    """The message is stored. Sending it again has no effect."""

    id: str
    turn: str
    """The turn that answers the message."""


class Chunk(WsFrame, frozen=True, tag="chunk"):
    """The next piece of the answer."""

    content: str


class ThinkingFrame(WsFrame, frozen=True, tag="thinking"):
    """The next piece of the model's thinking."""

    content: str


class CallNote(WsFrame, frozen=True, tag="tool_call"):
    """A call begins, of any tool. For display."""

    id: str
    name: str
    args: dict[str, Json]


class ResultNote(WsFrame, frozen=True, tag="tool_result"):
    """A call has its result. For display."""

    id: str
    name: str
    output: str


class ChunkReset(WsFrame, frozen=True, tag="chunk_reset"):
    """The client drops the pieces so far: the whole answer follows."""


class Done(WsFrame, frozen=True, tag="done"):
    """The turn is over."""

    full_response: str


class TitleUpdated(WsFrame, frozen=True, tag="title_updated"):
    """The session has a name now."""

    title: str


class Versions(WsFrame, frozen=True, tag="versions"):
    """The conversation goes on from another place: somebody went back, or chose another version (ws.md 3.10)."""

    message_count: int
    """How many messages it has now."""


class AbortedFrame(WsFrame, frozen=True, tag="aborted"):
    """The turn was stopped."""


class AbortAck(WsFrame, frozen=True, tag="abort_ack"):
    """The answer to `abort`."""

    status: Literal["aborted", "no_active_response"]


class DebugPrompt(WsFrame, frozen=True, tag="debug_prompt"):
    """The messages that go to the model."""

    messages: str
    estimated_tokens: int


class EventFrame(WsFrame, frozen=True, tag="event"):
    """An event of a turn, as `core/events.py` defines it."""

    seq: int
    event: Json
    turn: str = ""
    """The id of the turn. Empty: the event belongs to none."""


class QuestionFrame(WsFrame, frozen=True, tag="question"):
    """A question to the person."""

    id: str
    kind: str
    call_id: str
    tool: str
    arguments: dict[str, Json]
    subject: str
    expires_ms: int
    schema: dict[str, Json] | None = None
    action: QuestionAction | None = None
    agent: str = ""
    """The agent whose call asks."""


class ChannelMessage(WsFrame, frozen=True, tag="channel_message"):
    """A message that an agent sends to the person, outside of any answer (ws.md 3.9)."""

    channel: str
    chat_id: str
    """A session id, or `all`."""
    content: str
