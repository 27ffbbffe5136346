"""Starts the conformance suite, and reads what it found."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

ROOT: Final = Path(__file__).parents[2]
_PARTS: Final = ROOT / "tests/node/node_modules"
SUITE: Final = _PARTS / "@modelcontextprotocol/conformance/dist/index.js"
"""The suite that knows both eras."""
OLDER_SUITE: Final = _PARTS / "conformance-0-1/dist/index.js"
"""The last release before it (0.1). It has no `--requirements`, and other scenarios."""
_NODE: Final = ROOT / "scripts/node"
_CLIENT: Final = f"{sys.executable} -m tests.conformance.client"
_TIMEOUT: Final = ("--timeout", "120000")
"""For one scenario, on a busy machine."""


_DATE: Final = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


class Outcome(Struct, frozen=True):
    """What the suite found in one scenario."""

    scenario: str
    passed: int
    failed: int
    problem: str = ""
    """Its first complaint."""

    @property
    def is_good(self) -> bool:
        """Whether all checks passed."""
        return not self.failed


@contextmanager
def serve(program_name: str = "server") -> Iterator[str]:
    """Start our server with the fixtures, or a `gateway` with them, and yield its address."""
    program = [sys.executable, "-m", f"tests.conformance.{program_name}"]
    # Some fixtures stand in the SDK's own request path, which the speed trick for plain calls passes by.
    environment = {**os.environ, "HANDSPAN_FAST": "off"} if program_name == "server" else dict(os.environ)
    with subprocess.Popen(
        program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def client_scenarios(suite: Path = SUITE) -> list[str]:
    """Return the names of all scenarios for clients."""
    listed = subprocess.run([_NODE, suite, "list", "--client"], check=True, capture_output=True, text=True, cwd=ROOT)
    return re.findall(r"^ +- (\S+)", listed.stdout, re.MULTILINE)


async def try_server(url: str, *options: str, suite: Path = SUITE) -> list[Outcome]:
    """Run scenarios against our server: those of a revision (`--requirements`), or one (`--scenario`)."""
    limit = _TIMEOUT if suite == SUITE else ()  # the older one has a fixed limit for servers
    outcomes, _ = await _run(suite, "server", "--url", url, *options, *limit)
    return outcomes


async def try_client(names: Sequence[str], suite: Path = SUITE) -> list[Outcome]:
    """Run these scenarios against our client, as many at once as there are cores."""
    places = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(name: str) -> Outcome:
        async with places:
            outcomes, code = await _run(suite, "client", "--command", _CLIENT, "--scenario", name, *_TIMEOUT)
        if code and all(found.is_good for found in outcomes):
            return Outcome(name, 0, 1, "our client failed, whatever the suite saw of it")
        return outcomes[0]

    return await asyncio.gather(*map(one, names))


async def _run(suite: Path, *options: str) -> tuple[list[Outcome], int]:
    """Return what the suite found, and its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            *(str(_NODE), str(suite), *options, "-o", folder),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        code = await process.wait()
        return _read_all(Path(folder)), code


def _read_all(folder: Path) -> list[Outcome]:
    return [_read(folder, report) for report in sorted(folder.rglob("checks.json"))]


def _read(folder: Path, report: Path) -> Outcome:
    place = report.parent.relative_to(folder).as_posix()
    checks = json.loads(report.read_bytes())
    passed = sum(check["status"] == "SUCCESS" for check in checks)
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    problem = bad[0].get("errorMessage") or bad[0]["description"] if bad else ""
    return Outcome(_DATE.sub("", place).removeprefix("server-"), passed, len(bad), problem)
