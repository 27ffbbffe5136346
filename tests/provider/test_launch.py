"""Programs of manifests that are started (cetp.md 6)."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from handspan.provider.launch import start_program
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


async def test_a_program_whose_start_was_cancelled_does_not_stay(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    program = f"import os, time; open({str(noted)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    starting = asyncio.create_task(start_program([sys.executable, "-c", program], tmp_path / "socket", os.environ))
    await asyncio.sleep(0)  # a thread has begun to start it
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    before = noted.read_text() if noted.exists() else ""
    await until(lambda: not before or not Path(f"/proc/{before}").exists())
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    await until(lambda: not _children_of(children, program))


def _children_of(file: Path, program: str) -> list[str]:
    """The children of this process that run it, or that nobody has waited for."""
    found = []
    for pid in file.read_text().split():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        except OSError:
            continue
        if program in line:
            found.append(pid)
    return found
