"""The parts of the gateway that the routes of the graph API use. `door.py` makes `GraphParts`."""

from msgspec import Struct, field

from handspan.agent.agents import Agents
from handspan.agent.sessions import Sessions
from handspan.core.store import ArtifactStore, Store
from handspan.gateway.entry.auth import Auth
from handspan.gateway.graph.lines import OpenStreams, StreamLines
from handspan.gateway.graph.runs import GraphRuns
from handspan.gateway.graph.tool_sets import ToolSets
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.live import Live
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.registry.registry import Registry
from handspan.sources.graph import GraphTools


class GraphParts(Struct, frozen=True):
    """Everything that a route of the graph API may use."""

    store: Store
    registry: Registry
    agents: Agents
    artifacts: ArtifactStore
    sessions: Sessions
    questions: AwaitedQuestions
    live: Live
    runs: GraphRuns
    tools: GraphTools
    tool_sets: ToolSets
    answers: Replays[bytes]
    """Answers of `invoke`, for clients that send a request again."""
    streams: Replays[StreamLines]
    """Answers of `stream`, for clients that send a request again."""
    upload_bytes: int
    auth: Auth
    open_streams: OpenStreams = field(default_factory=OpenStreams)
