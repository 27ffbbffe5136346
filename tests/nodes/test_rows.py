"""The rows of a node's clients: many are written at once, and one that the database refuses keeps no other away."""

from pathlib import Path

import pytest

from handspan.core.errors import StoreError
from handspan.core.nodes import AddedClient, ClientRecord
from handspan.gateway.nodes import client_rows
from tests.memory_ledger import MemoryLedger
from tests.nodes.two_nodes import PlayedBook, PlayedDevice, PlayedNats, PlayedNode, PlayedRows
from tests.waiting import until

pytestmark = pytest.mark.anyio
COUNT = 100
REFUSED = "d3"


class _Book(PlayedBook):
    """Answers a write when all of them have come, and refuses one row."""

    def __init__(self, rows: PlayedRows) -> None:
        super().__init__(rows, "node")
        self.came = 0
        self.refuses = True

    async def add_client(self, client: ClientRecord) -> AddedClient:
        self.came += 1
        await until(lambda: self.came >= COUNT)
        if self.refuses and client.label == REFUSED:
            raise StoreError("This row can't be stored.")
        return await super().add_client(client)


async def test_waiting_rows_are_written_at_once_and_a_refused_one_keeps_no_other_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_rows, "_RETRY_SECONDS", 0.0)
    rows = PlayedRows()
    node = PlayedNode("node", PlayedNats(), rows, MemoryLedger(), tmp_path)
    book = node.cluster.client_rows._book = _Book(rows)  # type: ignore[assignment] # it plays what rows need
    await node.open()
    try:
        devices = [PlayedDevice(f"d{number}") for number in range(COUNT)]
        for device in devices:
            device.connect(node)
        await until(lambda: len(rows.clients) == COUNT - 1)
        assert REFUSED not in {row.label for row in rows.clients.values()}
        book.refuses = False
        await until(lambda: len(rows.clients) == COUNT)
    finally:
        await node.kill()
