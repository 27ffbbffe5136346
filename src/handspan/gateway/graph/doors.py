"""What the routes of the graph API need of the house, and nothing else. `door.py` fills it."""

from msgspec import Struct, field

from handspan.agent.agents import Agents
from handspan.agent.sessions import Sessions
from handspan.core.store import ArtifactStore, Store
from handspan.gateway.entry.auth import Auth
from handspan.gateway.graph.lines import Lines, OpenStreams
from handspan.gateway.graph.runs import GraphRuns
from handspan.gateway.graph.toolbook import ToolBook
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.live import Live
from handspan.registry.registry import Registry
from handspan.sources.graph import GraphTools

BODY_BYTES = 10 * 1024 * 1024
"""The size of a body: pictures are in it."""
BODY_SECONDS = 30.0


class GraphDoors(Struct, frozen=True):
    """The parts of the house that this door opens on."""

    store: Store
    registry: Registry
    agents: Agents
    artifacts: ArtifactStore
    sessions: Sessions
    live: Live
    runs: GraphRuns
    tools: GraphTools
    book: ToolBook
    answers: Replays[bytes]
    streams: Replays[Lines]
    upload_bytes: int
    auth: Auth
    open_streams: OpenStreams = field(default_factory=OpenStreams)
