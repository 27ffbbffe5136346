"""The disk of PostgreSQL is really full, while devices work and callers call; then there is room again.

The server's data is on a small file system in memory, which another file fills to the last byte. What PostgreSQL does
then is its own choice: it refuses writes, or ends for want of room for its log, and has to be started again.
"""

import asyncio
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.store import postgres_store
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.outages import Outages, at_work, told_figures
from tests.chaos.witness import kept, read_journal
from tests.postgres_engine import HOW_TO_INSTALL, PostgresEngine, debian_programs, find_programs
from tests.waiting import until

_MEGABYTES: Final = 160
_UPLOAD: Final = 700_000


class Scale(Struct, frozen=True):
    """How much of it."""

    times: int = 3
    seconds: int = 5
    """How long the disk is full, after the gateway has noticed it."""


SHORT: Final = Scale(1, 1)


@contextmanager
def _small_disk() -> Iterator[Path | None]:
    """A small file system that every user can reach; None where none can be made."""
    place = Path(tempfile.mkdtemp(prefix="handspan-disk-"))
    place.chmod(0o755)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_MEGABYTES}m,mode=755", "none", str(place)],
        capture_output=True,
        check=False,
    )
    try:
        yield place if made.returncode == 0 else None
    finally:
        if made.returncode == 0:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()


async def database_disk(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of one run; none where it can't be run."""
    if find_programs() is None:
        return [Figure(f"not run: {HOW_TO_INSTALL}", 0)]
    with _small_disk() as disk:
        if disk is None:
            return [Figure("not run: a file system of its own needs root (mount -t tmpfs)", 0)]
        engine = await asyncio.to_thread(lambda: PostgresEngine(programs=debian_programs(), parent=disk))
        try:
            await asyncio.to_thread(engine.start)
            return await _play(folder / "gateway", scale, engine, disk)
        finally:
            await asyncio.to_thread(engine.remove)


class _Uploads:
    """Files that were sent, with what was acknowledged of them."""

    def __init__(self, working: Outages) -> None:
        self._client = working.client
        self.stored: dict[str, bytes] = {}
        self.reasons: list[str] = []

    async def is_refused(self) -> bool:
        """Send one more, and return whether it was refused."""
        body = os.urandom(_UPLOAD)
        answer = await self._client.post("/api/artifacts", content=body)
        if answer.status_code == 201:
            self.stored[answer.json()["id"]] = body
        else:
            self.reasons.append(answer.json()["error"])
        return answer.status_code != 201

    async def lost(self) -> list[str]:
        """The files that were acknowledged, and are not there as they were sent."""
        return [name for name, body in self.stored.items() if await self._read(name) != body]

    async def _read(self, name: str) -> bytes:
        return (await self._client.get(f"/api/artifacts/{name}")).content


async def _play(folder: Path, scale: Scale, engine: PostgresEngine, disk: Path) -> list[Figure]:
    said: list[str] = []
    health: list[float] = []
    ended = unready = 0
    async with at_work(folder, {"HANDSPAN_DATABASE_URL": engine.url}) as (working, _):
        uploads = _Uploads(working)
        for _ in range(scale.times):
            await asyncio.to_thread(_fill, disk / "ballast")
            await until(uploads.is_refused)
            for _ in range(scale.seconds * 10):
                await uploads.is_refused()
                health.append(await working.health_seconds())
                if not await working.is_ready():
                    unready += 1
                    said.append(await working.doctor())
                await asyncio.sleep(0.1)
            (disk / "ballast").unlink()
            if not engine.is_running:
                ended += 1
                await asyncio.to_thread(engine.start)
            await working.go_on()
        lost = await uploads.lost()
    async with postgres_store(StoreAddress(engine.url), folder / "state") as store:
        journal = kept(await read_journal(store))
    return [
        Figure("times that the disk was full", scale.times),
        Figure("  times that the server ended by it", ended),
        Figure("  times that the gateway was not ready", unready, at_least=scale.times),
        Figure("slowest /health meanwhile", percentile(health, 1.0) * 1000, "ms", at_most=5000),
        Figure("files that were stored", len(uploads.stored)),
        Figure("files that were refused", len(uploads.reasons), at_least=scale.times),
        none_of("refusals that do not say why", [text for text in uploads.reasons if "can't be used" not in text]),
        none_of("stored files that are lost or changed", lost),
        *told_figures(working, journal),
        none_of("outages that doctor does not explain", [text for text in said if "can't be used" not in text]),
    ]


def _fill(ballast: Path) -> None:
    """Take the last byte of the disk, and what becomes free meanwhile."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 65536)
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x")
    os.sync()
