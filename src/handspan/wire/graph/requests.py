"""What clients ask of the graph API (`protocol/graph.md`), as it is after reading: one form for each thing."""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.core.values import Json, JsonObject
from handspan.wire.graph.blocks import Block, ToolResultBlock

Granularity: TypeAlias = Literal["full", "partial", "low"]
MOST_ROUNDS: Final = 100
Rounds: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]

MOST_ENTRIES: Final = 5_000
"""Of one request, of each kind: messages, blocks, parts of results, tools (graph.md 4.9)."""

DEFAULT_NODE: Final = "tools"
"""Where a tool without a node belongs (graph.md 3.1)."""


class AskedMessage(Struct, frozen=True):
    """A message of a request: of all that a client may say of it, this counts (graph.md 2.1)."""

    role: Literal["user", "tool"]
    content: list[Block]


Messages: TypeAlias = Annotated[list[AskedMessage], Meta(min_length=1)]


class RunConfig(Struct, frozen=True):
    """Which thread and agent a request is for; empty where it does not say."""

    thread_id: str = ""
    agent: str = ""


class OfferedTool(Struct, frozen=True):
    """A tool of the client, whichever form it came in (graph.md 3.1)."""

    node_name: str
    name: str
    description: str
    parameters: JsonObject
    permissions: tuple[str, ...] = ()
    timeout: Annotated[float, Meta(gt=0)] | None = None
    """Seconds until a call of it expires."""
    version: str = "1.0.0"
    annotations: JsonObject | None = None


class Asked(Struct, frozen=True):
    """A request that begins a run, or goes on with one (graph.md 4.1)."""

    messages: list[AskedMessage]
    config: RunConfig = RunConfig()
    recursion_limit: int = 25
    response_granularity: Granularity = "low"
    tools: list[OfferedTool] | None = None
    """The tools of the run from here on; None leaves them as they are."""
    key: str = "messages"
    """Where its messages stood."""

    @property
    def results(self) -> list[ToolResultBlock]:
        """The results that it brings, in order; none when it begins a run."""
        return [block for message in self.messages for block in message.content if type(block) is ToolResultBlock]

    @property
    def result_places(self) -> list[list[str]]:
        """Where each of the results stood, for a refusal."""
        return [
            ["body", self.key, str(number), "content", str(place)]
            for number, message in enumerate(self.messages)
            for place, block in enumerate(message.content)
            if type(block) is ToolResultBlock
        ]

    @property
    def said(self) -> list[Block]:
        """All that the person says, as of one message (graph.md 4.3)."""
        return [block for message in self.messages if message.role == "user" for block in message.content]


class AddedMessage(Struct, frozen=True):
    """A message that is put into a thread without asking anybody for an answer (graph.md 8.2, 8.3)."""

    role: Literal["user", "assistant"]
    content: list[Block]


class Fresh(Struct, frozen=True):
    """Over the WebSocket: begin a run (graph.md 7.7)."""

    asked: Asked


class Resume(Struct, frozen=True):
    """Over the WebSocket: go on with one."""

    asked: Asked


class Stop(Struct, frozen=True):
    """Over the WebSocket: stop the run of this socket."""


# The bodies, as they come. Entries of `tools` have one of two forms, which graph_tools.py tells apart.


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
    """`config`; what else it holds is ignored (graph.md 4.2)."""

    thread_id: str | int | float | None = None
    agent: str | None = None


class InvokeBody(Struct, frozen=True):
    """The body of `invoke` and `stream` (graph.md 4.1)."""

    messages: Messages
    config: ConfigBody | None = None
    initial_state: Json = None
    """Ignored."""
    recursion_limit: Rounds = 25
    response_granularity: Granularity = "low"
    tools: list[JsonObject] | None = None


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


class StopBody(Struct, frozen=True, tag_field="invoke_type", tag="stop"):
    """The WebSocket's message that stops its run (graph.md 7.7)."""


class SetupBody(Struct, frozen=True):
    """The body of `setup` (graph.md 3.2)."""

    tools: list[JsonObject]


class OneThreadBody(Struct, frozen=True):
    """The body of `stop` and `fix` (graph.md 6)."""

    thread_id: str | int | float
    config: ConfigBody | None = None


class PutState(Struct, frozen=True):
    """What is put to a thread."""

    context: list[AddedMessage] | None = None


class AddBody(Struct, frozen=True):
    """Messages that are put into a thread (graph.md 8.3)."""

    messages: Annotated[list[AddedMessage], Meta(min_length=1)]
    metadata: JsonObject | None = None
    config: ConfigBody | None = None


class StateBody(Struct, frozen=True):
    """A state that is put to a thread: its `context` is appended, the rest ignored (graph.md 8.2)."""

    state: PutState
    config: ConfigBody | None = None
