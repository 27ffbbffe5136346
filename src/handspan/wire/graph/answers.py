"""The answers of the graph API (`protocol/graph.md`), one class for each object, and their envelope.

Every field is always sent: clients read fields without a check.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.values import Json, JsonObject
from handspan.wire.graph.blocks import Block
from handspan.wire.graph.faults import Detail

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
RunStatus: TypeAlias = Literal["completed", "interrupted", "limit", "stopped"]
ChunkEvent: TypeAlias = Literal["message", "updates", "state", "error"]
_ENCODER: Final = msgspec.json.Encoder()


class FunctionView(Struct, frozen=True):
    """The function of a call."""

    name: str
    arguments: str
    """JSON text."""


class GraphCallView(Struct, frozen=True):
    """A call of an assistant message (graph.md 2.5)."""

    id: str
    function: FunctionView
    type: Literal["function"] = "function"


class Usages(Struct, frozen=True):
    """Tokens of one reply; null is unknown."""

    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    image_tokens: int | None = None
    audio_tokens: int | None = None


class GraphMessage(Struct, frozen=True, kw_only=True):
    """One message (graph.md 2.1)."""

    message_id: str
    role: Role
    content: Sequence[Block]
    delta: bool = False
    """A piece of a message. The whole message follows under the same id."""
    tools_calls: list[GraphCallView] | None = None
    reasoning: str | None = None
    timestamp: float
    """Seconds since 1970."""
    metadata: JsonObject = {}
    usages: Usages | None = None
    raw: None = None
    parsed_content: None = None


class Meta(Struct, frozen=True, kw_only=True):
    """The thread and the run of an answer, and the state of the run (graph.md 4.4)."""

    is_new_thread: bool
    thread_id: str
    thread_name: str | None = None
    run_id: str
    status: RunStatus
    open_calls: Sequence[str] = []
    """The ids of the calls that wait for this client."""


class OpenCall(Struct, frozen=True):
    """A call that waits for the client."""

    id: str
    name: str
    args: JsonObject
    expires_at: float
    """Seconds since 1970."""


class InterruptData(Struct, frozen=True):
    """The calls that a suspended run waits for."""

    open_calls: Sequence[OpenCall]


class ExecutionMeta(Struct, frozen=True, kw_only=True):
    """The state of a thread's run (graph.md 8.2)."""

    current_node: str
    step: int
    status: Literal["running", "interrupted_before", "interrupted_after", "completed", "error"]
    interrupted_node: str | None = None
    interrupt_reason: str | None = None
    interrupt_data: InterruptData | None = None
    thread_id: str | None = None
    stop_current_execution: str = "none"
    internal_data: JsonObject = {}


class GraphState(Struct, frozen=True, kw_only=True):
    """The conversation of a thread, and the state of its run (graph.md 8.2)."""

    context: Sequence[GraphMessage]
    context_summary: str | None = None
    execution_meta: ExecutionMeta


class InvokeAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a run request (graph.md 4.4)."""

    messages: Sequence[GraphMessage]
    state: GraphState | None = None
    """Only with the granularity `full`."""
    context: Sequence[GraphMessage] | None = None
    """With `full` and `partial`."""
    summary: str | None = None
    meta: Meta


class GraphChunk(Struct, frozen=True, kw_only=True):
    """One line of a stream, one message of the WebSocket (graph.md 7.2)."""

    event: ChunkEvent
    message: GraphMessage | None = None
    state: GraphState | None = None
    data: Json = None
    thread_id: str
    run_id: str
    metadata: JsonObject = {}
    timestamp: float


class SetupAnswer(Struct, frozen=True, kw_only=True):
    """The answer to `setup` (graph.md 3.2)."""

    success: Literal[True] = True
    message: str
    registered_tools: int
    status: Literal["success"] = "success"
    details: str


class StopAnswer(Struct, frozen=True, kw_only=True):
    """The answer to `stop` (graph.md 6.1)."""

    success: bool = True
    message: str
    thread_id: str
    ok: bool = True
    running: bool
    reason: str


class AnswerTaken(Struct, frozen=True, kw_only=True):
    """The answer to `answer` (graph.md 7.10)."""

    success: bool = True
    message: str
    question_id: str
    accepted: bool
    """Whether this answer is the one that counts."""


class FixAnswer(Struct, frozen=True, kw_only=True):
    """The answer to `fix` (graph.md 6.2)."""

    success: bool = True
    message: str
    removed_count: int
    state: GraphState | None = None


class ThreadView(Struct, frozen=True, kw_only=True):
    """A thread in a list (graph.md 8.1)."""

    thread_id: str
    thread_name: str | None = None
    user_id: str | None = None
    metadata: JsonObject | None = None
    updated_at: str
    run_id: str | None = None


class ThreadsAnswer(Struct, frozen=True):
    """The threads of the owner, the newest first."""

    threads: Sequence[ThreadView]


class ThreadData(Struct, frozen=True):
    """The data of one thread."""

    thread: ThreadView


class ThreadAnswer(Struct, frozen=True):
    """One thread."""

    thread_data: ThreadData


class StateAnswer(Struct, frozen=True):
    """The state of a thread (graph.md 8.2)."""

    state: GraphState


class MessagesAnswer(Struct, frozen=True):
    """Messages of a thread (graph.md 8.3)."""

    messages: Sequence[GraphMessage]


class DoneAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a change of a thread (graph.md 8.1)."""

    success: Literal[True] = True
    message: str
    data: Json = True


class NodeView(Struct, frozen=True):
    """A node of the graph."""

    id: str
    name: str


class EdgeView(Struct, frozen=True):
    """An edge of the graph, from one node to another."""

    id: str
    source: str
    target: str


class GraphAnswer(Struct, frozen=True):
    """The agent as a graph (graph.md 9.1)."""

    info: JsonObject
    nodes: Sequence[NodeView]
    edges: Sequence[EdgeView]


class GraphToolView(Struct, frozen=True):
    """A tool that the agent may use."""

    name: str
    description: str
    source: str
    parameters: JsonObject


class NodeTools(Struct, frozen=True):
    """The tools of one node."""

    node_name: str
    tool_count: int
    tools: Sequence[GraphToolView]


class ToolsAnswer(Struct, frozen=True):
    """The tools that the agent may use (graph.md 9.3)."""

    node_count: int
    tool_count: int
    nodes: Sequence[NodeTools]


# Files of an owner (graph.md 9.4).


class UploadAnswer(Struct, frozen=True, kw_only=True):
    """The file that was uploaded."""

    file_id: str
    mime_type: str
    size_bytes: int
    filename: str
    extracted_text: str | None = None
    url: str
    """The path of the file, below the address of the gateway."""
    direct_url: str | None = None
    direct_url_expires_at: float | None = None


class FileAnswer(Struct, frozen=True, kw_only=True):
    """The type, size and name of a file."""

    file_id: str
    mime_type: str
    size_bytes: int
    filename: str | None = None
    extracted_text: str | None = None
    direct_url: str | None = None
    direct_url_expires_at: float | None = None


class FileUrlAnswer(Struct, frozen=True, kw_only=True):
    """The address of a file."""

    file_id: str
    url: str
    expires_at: float | None = None
    mime_type: str


class MultimodalAnswer(Struct, frozen=True, kw_only=True):
    """The largest size of a file, and the kind of storage."""

    media_storage_type: str = "local"
    media_storage_path: str = ""
    """Always empty: clients do not see the path."""
    media_max_size_mb: float
    document_handling: str = "pass_raw"


# The envelope of every answer (graph.md 1.1, 1.2).


class Metadata(Struct, frozen=True):
    """The request that is answered, and the time."""

    request_id: str
    timestamp: str
    """ISO 8601 in UTC."""
    message: str = "OK"


class SuccessBody(Struct, frozen=True):
    """The answer to a request that succeeded (graph.md 1.1)."""

    data: Json
    metadata: Metadata


class ErrorDetails(Struct, frozen=True):
    """What is wrong, in a code, a message and a list of places."""

    code: str
    message: str
    details: list[Detail]


class FailureBody(Struct, frozen=True):
    """The answer to a request that was refused or failed (graph.md 1.2)."""

    error: ErrorDetails
    metadata: Metadata


def encode_success(data: object, request_id: str, at: str) -> bytes:
    """Return the body of a success (graph.md 1.1). `data`: anything that msgspec encodes as JSON."""
    return _ENCODER.encode(SuccessBody(data, Metadata(request_id, at)))  # type: ignore[arg-type]  # see above


def encode_failure(code: str, message: str, details: list[Detail], request_id: str, at: str) -> bytes:
    """Return the body of an error (graph.md 1.2)."""
    return _ENCODER.encode(FailureBody(ErrorDetails(code, message, details), Metadata(request_id, at, message)))
