"""The rows of nodes, as a test of the bus plays the database."""

from collections.abc import Mapping

from handspan.bus.senders import Senders
from handspan.core.errors import StoreError
from handspan.core.nodes import MessageSender

NEW = MessageSender(is_numbered=True, sent=0)
OLD = MessageSender(is_numbered=False, sent=0)


class NodeRows:
    """Which nodes there are."""

    def __init__(self, *nodes: str) -> None:
        self.nodes: dict[str, MessageSender] = dict.fromkeys(nodes, NEW)
        self.reads = 0
        self.is_away = False

    async def read(self) -> Mapping[str, MessageSender]:
        """Return all rows."""
        self.reads += 1
        if self.is_away:
            raise StoreError("the database is away")
        return dict(self.nodes)

    def senders(self) -> Senders:
        """Return what one node knows of the others."""
        return Senders(self.read)
