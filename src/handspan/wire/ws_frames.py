"""The frames of `protocol/ws.md` about a client, its tools and its calls, one class each; fields as in the protocol.

`ws_chat_frames.py` has those of a conversation.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import Meta, Struct, field

from handspan.core.values import Json

VERSION: Final = 1
SUBPROTOCOLS: Final = ("handspan.v1", "clawseed.v1")

Capability: TypeAlias = Literal[
    "resume",
    "progress",
    "cancel",
    "deadline",
    "parts",
    "permissions",
    "login",
    "about",
    "trust",
    "unregister",
    "ack_batch",
    "events",
    "questions",
    "question_kinds",
    "messages",
    "versions",
]
CAPABILITIES: Final[frozenset[str]] = frozenset(get_args(Capability))

FrameCode: TypeAlias = Literal[
    "INVALID_JSON",
    "INVALID_FRAME",
    "UNKNOWN_MESSAGE_TYPE",
    "EMPTY_CONTENT",
    "NO_USER_MESSAGE",
    "SESSION_BUSY",
    "SESSION_OWNER_MISMATCH",
    "SESSION_BIND_FAILED",
    "AGENT_INIT_FAILED",
    "AUTH_ERROR",
    "PROVIDER_ERROR",
    "AGENT_ERROR",
    "ABORTED",
    "INVALID_ANSWER",
]

Role: TypeAlias = Literal["chat", "device"]
Decision: TypeAlias = Literal["allow", "deny", "deny_forever"]
TrustDecision: TypeAlias = Decision | Literal["expired"]


class WireLimits(Struct, frozen=True):
    """The limits of the gateway for one client (ws.md 8.1)."""

    message_bytes: int = 1024 * 1024
    depth: int = 64
    tools: int = 256
    description_bytes: int = 4096
    schema_bytes: int = 16 * 1024
    schema_depth: int = 16
    messages_per_second: int = 60
    pending_calls: int = 64
    backlog_bytes: int = 4 * 1024 * 1024


class WsFrame(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """The base of all frames: an object with a `type`. Fields with their default value are not sent."""


# From the client.


class Connect(WsFrame, frozen=True, tag="connect"):
    """The first frame: the client's name, its role and its capabilities."""

    v: Json = VERSION
    session_id: str | None = None
    device_name: str | None = None
    capabilities: list[str] = []
    role: Role = "chat"
    label: str | None = None
    prefix: bool = True
    resume: str | None = None
    last_event: int | None = None


class MediaPart(Struct, frozen=True, omit_defaults=True):
    """An image, a sound or a file that comes with a result."""

    kind: Literal["image", "audio", "file"]
    media_type: str
    data: str = ""
    """Base64."""
    artifact: str = ""
    """The id of an upload, in place of `data`."""
    name: str = ""


class RegisterTools(WsFrame, frozen=True, tag="register_tools"):
    """Tools that the client offers. Each is checked alone (`read_offer`)."""

    tools: list[Json]


class UnregisterTools(WsFrame, frozen=True, tag="unregister_tools"):
    """Tools that the client removes."""

    names: list[str]


class GetRegisteredTools(WsFrame, frozen=True, tag="get_registered_tools"):
    """Asks for the client's tools that the gateway knows."""


class LoginStart(WsFrame, frozen=True, tag="login_start"):
    """Starts the login that a question asks for: from the person's client, and from there to the device."""

    id: str
    """The question."""
    call_id: str = ""
    """The call that waits for the login. Only the gateway sends it."""


class DeviceScope(Struct, frozen=True, omit_defaults=True):
    """A kind of data that a device has."""

    name: str
    description: str = ""


class DeviceNotes(WsFrame, frozen=True, tag="about"):
    """What people should know about a device. It replaces what the device said before."""

    description: str = ""
    scopes: list[DeviceScope] = []
    notes: list[str] = []
    """Such as which of its tools are not offered, and why."""


class TrustRequest(WsFrame, frozen=True, tag="trust_request"):
    """Asks the person whether the device may do something for the first time, or in a changed form."""

    id: Annotated[str, Meta(min_length=1, max_length=128)]
    """Chosen by the client. To ask again with the same id returns the answer that came meanwhile."""
    subject: str
    new: dict[str, Json]
    """What the person looks at before the answer."""
    old: dict[str, Json] | None = None
    """What the person trusted before."""


class _AnswerToCall(WsFrame, frozen=True):
    id: Json = ""
    call_id: Json = ""

    @property
    def call(self) -> str:
        """The id of the call. Empty: the frame has none."""
        found = self.id or self.call_id
        return found if isinstance(found, str) else ""


class ResultFrame(_AnswerToCall, frozen=True, tag="tool_result"):
    """The result of a call."""

    output: Json = ""
    success: bool = field(default_factory=lambda: True)
    """Always sent, though it is true when it is missing: clients and gateways of the seed write it (SPEC W2)."""
    error: Json = None
    parts: list[MediaPart] = []


class FailureFrame(_AnswerToCall, frozen=True, tag="tool_error"):
    """The error of a call."""

    error: Json = "Unknown error"
    code: str = ""
    success: bool = field(default_factory=bool)
    """Always sent, like that of a result."""
    resolution_hint: str = ""
    """With `auth_required`: what the person has to do."""
    authorize_intent: str = ""
    """With `auth_required`: what `login_start` will start. Empty: the client can't start it."""
    retry: int = 0
    """With `auth_required`: the `retry` of the request that it answers."""


class ProgressFrame(_AnswerToCall, frozen=True, tag="tool_progress"):
    """Progress of a tool while it runs."""

    value: Json = None


class PermissionAnswer(WsFrame, frozen=True, tag="permission_answer"):
    """The answer of the person at the device to a `permission_request`."""

    id: str
    decision: Decision
    how_to_enable: str = ""


class Ping(WsFrame, frozen=True, tag="ping"):
    """Asks for a `pong`. For clients that can't see the pings of WebSocket."""


# From the gateway.


class Connected(WsFrame, frozen=True, tag="connected"):
    """The answer to `connect`."""

    v: int
    message: str
    capabilities: list[str] = []
    limits: WireLimits | None = None
    label: str = ""
    resume_token: str = ""
    grace_ms: int = 0
    resumed: bool | None = None
    ended: Json = None
    """How the last turn of the session ended, if not with a whole answer (ws.md 1.7)."""
    notice: str = ""
    """Why a device does not have the label that it asked for, for its person."""


class QuestionClosed(WsFrame, frozen=True, tag="question_closed"):
    """A question, or a `permission_request`, is closed. `accepted`: this connection's answer closed it."""

    id: str
    accepted: bool


class RejectedTool(Struct, frozen=True):
    """A tool that was refused, and why."""

    name: str
    reason: str


class ToolsRegistered(WsFrame, frozen=True, tag="tools_registered"):
    """The answer to `register_tools`."""

    count: int
    registered: int
    rejected: list[RejectedTool] = []


class ToolsUnregistered(WsFrame, frozen=True, tag="tools_unregistered"):
    """The answer to `unregister_tools`."""

    removed: int
    registered: int


class ToolsWithdrawn(WsFrame, frozen=True, tag="tools_withdrawn"):
    """Tools that the client has no longer: their names belong to the gateway's own tools now."""

    tools: list[RejectedTool]
    registered: int


class RegisteredTools(WsFrame, frozen=True, tag="registered_tools"):
    """The answer to `get_registered_tools`."""

    tools: list[Json]


class CallRequest(WsFrame, frozen=True, tag="tool_call_request"):
    """Asks the client to run a tool."""

    id: str
    name: str
    args: Mapping[str, Json]
    timeout_ms: int | None = None
    again: bool = False
    retry: int = 0
    """How often the person has logged in for this call. A request with a higher number runs the call again."""


class CancelFrame(WsFrame, frozen=True, tag="tool_cancel"):
    """Asks the client to stop a call: its caller waits no longer."""

    id: str
    reason: str


class PermissionRequest(WsFrame, frozen=True, tag="permission_request"):
    """Asks the person at the device for a permission."""

    id: str
    call_id: str
    tool: str
    permission: str
    expires_ms: int
    arguments: Mapping[str, Json] = {}
    """What the tool will be called with."""
    agent: str = ""
    """The agent whose call needs it."""


class TrustAnswer(WsFrame, frozen=True, tag="trust_answer"):
    """The person's answer to a `trust_request`; `expired` if none came."""

    id: str
    decision: TrustDecision


class Acknowledged(WsFrame, frozen=True, tag="result_acknowledged"):
    """The results of these calls are stored: `id` for one, `ids` for several."""

    id: str = ""
    ids: list[str] = []


class PongFrame(WsFrame, frozen=True, tag="pong"):
    """The answer to `ping`."""


class ErrorFrame(WsFrame, frozen=True, tag="error"):
    """A frame was refused, or something failed."""

    message: str
    code: str = ""
    id: str = ""
    """The id of the refused message or answer."""


class Offer(Struct, frozen=True):
    """A tool as a client offers it (ws.md 4.1)."""

    name: str
    description: str
    parameters: dict[str, Json]
    permissions: list[str] = []
    timeout: float | None = None
    annotations: dict[str, Json] | None = None
    version: str = "1.0.0"
