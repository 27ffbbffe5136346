"""What the graph API has beside the parts of the gateway. `door.py` makes it."""

from msgspec import Struct, field

from handspan.gateway.graph.lines import OpenStreams, StreamLines
from handspan.gateway.graph.runs import GraphRuns
from handspan.gateway.graph.tool_sets import ToolSets
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.parts import GatewayParts
from handspan.sources.graph import GraphTools


class GraphParts(Struct, frozen=True, kw_only=True):
    """What a route of the graph API uses."""

    gateway: GatewayParts
    runs: GraphRuns
    tools: GraphTools
    tool_sets: ToolSets
    answers: Replays[bytes]
    """Answers of `invoke`, for clients that send a request again."""
    streams: Replays[StreamLines]
    """Answers of `stream`, for clients that send a request again."""
    open_streams: OpenStreams = field(default_factory=OpenStreams)
