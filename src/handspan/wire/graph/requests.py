"""Requests of the graph API (`protocol/graph.md`): the bodies as they come, and as they are after reading."""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.core.values import Json, JsonObject
from handspan.wire.graph.blocks import Block, ToolResultBlock
from handspan.wire.ws_frames import Decision

Granularity: TypeAlias = Literal["full", "partial", "low"]
MAX_ROUNDS: Final = 100
Rounds: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_ROUNDS)]

MAX_ENTRIES: Final = 5_000
"""The most messages, blocks, parts of results, or tools of one request (graph.md 4.9)."""

DEFAULT_NODE: Final = "tools"
"""The node of a tool that names none (graph.md 3.1)."""


class RequestMessage(Struct, frozen=True):
    """A message of a request. Other fields that clients send are ignored (graph.md 2.1)."""

    role: Literal["user", "tool", "assistant", "system"]
    content: list[Block]


Messages: TypeAlias = Annotated[list[RequestMessage], Meta(min_length=1)]


class RunConfig(Struct, frozen=True):
    """The thread and the agent of a request. Empty: the request names none."""

    thread_id: str = ""
    agent: str = ""
    retry: bool = False
    """Whether the person's last message of the thread is answered again, in place of what came of it."""


class OfferedTool(Struct, frozen=True):
    """A tool of the client (graph.md 3.1)."""

    node_name: str
    name: str
    description: str
    parameters: JsonObject
    permissions: tuple[str, ...] = ()
    timeout: Annotated[float, Meta(gt=0)] | None = None
    """Seconds until a call of the tool expires."""
    version: str = "1.0.0"
    annotations: JsonObject | None = None


class RunRequest(Struct, frozen=True):
    """A request that begins or resumes a run (graph.md 4.1)."""

    messages: list[RequestMessage]
    config: RunConfig = RunConfig()
    recursion_limit: int = 25
    response_granularity: Granularity = "low"
    tools: list[OfferedTool] | None = None
    """The tools of the run from now on. None: they stay as they are."""
    key: str = "messages"
    """The field of the body that holds the messages."""
    questions: bool = False
    """Whether the client shows questions to its person."""

    @property
    def results(self) -> list[ToolResultBlock]:
        """The results of calls, in order. Empty: the request begins a run."""
        return [block for message in self.messages for block in message.content if type(block) is ToolResultBlock]

    @property
    def result_places(self) -> list[list[str]]:
        """The place of each result in the body, for a refusal."""
        return [
            ["body", self.key, str(number), "content", str(place)]
            for number, message in enumerate(self.messages)
            for place, block in enumerate(message.content)
            if type(block) is ToolResultBlock
        ]

    @property
    def history(self) -> list[RequestMessage]:
        """The messages before the person's new ones: up to the last message of another role (graph.md 4.3)."""
        roles = [message.role for message in self.messages]
        last = max((place for place, role in enumerate(roles, 1) if role in ("assistant", "system")), default=0)
        return self.messages[:last]

    @property
    def user_content(self) -> list[Block]:
        """The blocks of the user messages after the history, as one message (graph.md 4.3)."""
        new = self.messages[len(self.history) :]
        return [block for message in new if message.role == "user" for block in message.content]


class AddedMessage(Struct, frozen=True):
    """A message to append to a thread. The model does not answer it (graph.md 8.2, 8.3)."""

    role: Literal["user", "assistant"]
    content: list[Block]


class Fresh(Struct, frozen=True):
    """Over the WebSocket: begin a run (graph.md 7.7)."""

    request: RunRequest


class Resume(Struct, frozen=True):
    """Over the WebSocket: resume a run."""

    request: RunRequest


class Stop(Struct, frozen=True):
    """Over the WebSocket: stop the run of this connection."""


# The bodies as they come. Entries of `tools` have one of two forms; `tools.py` reads both.


class FunctionForm(Struct, frozen=True):
    """The function of a tool in the form of OpenAI."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None


class OpenAiTool(Struct, frozen=True):
    """A tool in the form of OpenAI (graph.md 3.1)."""

    function: FunctionForm
    type: Literal["function"] = "function"
    node_name: str = DEFAULT_NODE
    permissions: tuple[str, ...] = ()
    timeout: Annotated[float, Meta(gt=0)] | None = None
    version: str = "1.0.0"
    annotations: JsonObject | None = None


class ConfigBody(Struct, frozen=True):
    """`config`. Its other fields are ignored (graph.md 4.2)."""

    thread_id: str | int | float | None = None
    agent: str | None = None
    retry: bool = False


class InvokeBody(Struct, frozen=True):
    """The body of `invoke` and `stream` (graph.md 4.1)."""

    messages: Messages
    config: ConfigBody | None = None
    initial_state: Json = None
    """Ignored."""
    recursion_limit: Rounds = 25
    response_granularity: Granularity = "low"
    tools: list[JsonObject] | None = None
    questions: bool = False
    """The client shows questions: a stream brings them (graph.md 7.10)."""


class FreshBody(InvokeBody, frozen=True, tag_field="invoke_type", tag="fresh"):
    """The WebSocket's message that begins a run (graph.md 7.7)."""


class ResumeBody(Struct, frozen=True, tag_field="invoke_type", tag="resume"):
    """The WebSocket's message that brings results (graph.md 7.7)."""

    tool_result: Messages
    config: ConfigBody | None = None
    initial_state: Json = None
    """Ignored."""
    recursion_limit: Rounds = 25
    response_granularity: Granularity = "low"
    tools: list[JsonObject] | None = None
    questions: bool = False
    """As in `InvokeBody`."""


class StopBody(Struct, frozen=True, tag_field="invoke_type", tag="stop"):
    """The WebSocket's message that stops its run (graph.md 7.7)."""


class SetupBody(Struct, frozen=True):
    """The body of `setup` (graph.md 3.2)."""

    tools: list[JsonObject]


class OneThreadBody(Struct, frozen=True):
    """The body of `stop` and `fix` (graph.md 6)."""

    thread_id: str | int | float
    config: ConfigBody | None = None


class AnswerBody(Struct, frozen=True):
    """The body of `answer`: what the person says to a question (graph.md 7.10)."""

    question_id: str
    decision: Decision
    always: bool = False
    arguments: JsonObject | None = None
    value: Json = None
    reason: Annotated[str, Meta(max_length=1000)] = ""


class PutState(Struct, frozen=True):
    """A state whose messages are appended."""

    context: list[AddedMessage] | None = None


class AddBody(Struct, frozen=True):
    """Messages to append to a thread (graph.md 8.3)."""

    messages: Annotated[list[AddedMessage], Meta(min_length=1)]
    metadata: JsonObject | None = None
    config: ConfigBody | None = None


class StateBody(Struct, frozen=True):
    """A state: its `context` is appended to the thread, the rest is ignored (graph.md 8.2)."""

    state: PutState
    config: ConfigBody | None = None
