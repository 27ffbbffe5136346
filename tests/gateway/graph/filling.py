"""Fills a small disk through the graph API, for `test_storage.py`: exits with 0 when every way of asking is told so."""

import asyncio
import contextlib
import sys
from pathlib import Path

from tests.gateway.graph.pages import graph_gateway, said
from tests.gateway.graph.test_stream import run, socket, words

LARGE = "x" * 700_000


async def main(folder: Path) -> None:
    """Say more than fits, three ways; make room, and go on."""
    ballast = folder / "ballast"
    async with graph_gateway(folder) as there, socket(there.page, max_size=None) as connection:
        await there.page.say("hello", "t")
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        refused = await there.page.say(LARGE, "t")
        assert (refused.status, refused.error["code"]) == (503, "STORAGE_ERROR"), refused.text[:500]
        assert "the disk is full. Make room" in refused.error["message"], refused.error
        streamed = (await there.page.stream([said(LARGE)])).chunks[-1]
        assert (streamed["event"], streamed["data"]["code"]) == ("error", "STORAGE_ERROR"), streamed
        sent = (await run(connection, invoke_type="fresh", messages=[said(LARGE)]))[-1]
        assert (sent["event"], sent["data"]["code"]) == ("error", "STORAGE_ERROR"), sent
        ballast.unlink()
        assert (await there.page.say("there is room", "t")).words == "there is room"
        last = await run(connection, invoke_type="fresh", messages=[said("here too")])
        assert words(last, delta=False) == "here too"


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
