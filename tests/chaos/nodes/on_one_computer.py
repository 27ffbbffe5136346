"""docs/scale.md, word by word: three nodes behind nginx, and `kill -9` of a device's node in the middle of a call."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.chaos.figures import Figure, none_of
from tests.chaos.nodes.fleet import PATIENCE, ROOT
from tests.nats_engine import find_server, free_port
from tests.postgres_engine import PostgresEngine

HOW_TO_INSTALL: Final = "SKIPPED: no nginx; run `apt-get install nginx-light`"
_PAGE: Final = ROOT / "docs/scale.md"
_NGINX: Final = ROOT / "deploy/cluster/nginx-one-computer.conf"
_CHOOSE: Final = """
PORT=$(handspan nodes --json --url http://127.0.0.1:8802 | python3 -c '
import json, sys
print(next(one["address"].rpartition(":")[2] for one in json.load(sys.stdin) if one["load"].get("devices")))')
OTHER=8801; [ $PORT = 8801 ] && OTHER=8803
"""
"""What the page leaves to the person: which node has the device, and which has not."""


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 1


SHORT: Final = Scale()


async def on_one_computer(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """What a person sees who does what the page says."""
    if shutil.which("nginx") is None:
        return [Figure(HOW_TO_INSTALL, 0)]
    said = [await _follow(folder / str(number)) for number in range(scale.rounds)]
    return [
        Figure("times that the page was followed", len(said), at_least=1),
        none_of("answers that did not come", (text[-3000:] for text in said if not _has_answer(text))),
        none_of("nodes that were not two at the end", (text[-3000:] for text in said if not _has_two_nodes(text))),
    ]


async def _follow(folder: Path) -> str:
    await asyncio.to_thread(folder.mkdir)
    engine = PostgresEngine()
    try:
        await asyncio.to_thread(engine.start)
        return await _run(folder, _script(folder, engine.url))
    finally:
        engine.remove()


def _script(folder: Path, database: str) -> str:
    """The commands of the page, with ports and folders that no other program has."""
    first, second, last = re.findall(r"```bash\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    ports = {f"880{number}": free_port() for number in range(4)}
    conf = folder / "nginx.conf"
    text = f"trap 'set +e\n{last}' EXIT\n{first}\n{_CHOOSE}\n{second}".replace("880$n", "$(port $n)").replace(
        "880?", "*"
    )
    text = re.sub(r"postgresql://[^']*", database, text).replace("4222", str(free_port()))
    text = text.replace("/tmp/handspan", str(folder)).replace(
        '"$PWD/deploy/cluster/nginx-one-computer.conf"', str(conf)
    )
    nginx = _NGINX.read_text(encoding="utf-8")
    for shown, used in ports.items():
        text, nginx = text.replace(shown, str(used)), nginx.replace(shown, str(used))
    conf.write_text(nginx if os.geteuid() else f"user root;\n{nginx}", encoding="utf-8")
    names = " ".join(map(str, ports.values()))
    return f"set -euo pipefail\nall=({names})\nport() {{ echo ${{all[$1]}}; }}\n{text}"


async def _run(folder: Path, script: str) -> str:
    found = f"{Path(sys.executable).parent}:{Path(find_server() or '').parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        script,
        cwd=ROOT,
        env={**os.environ, "PATH": found, "HOME": str(folder)},
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(3 * PATIENCE):
            output, _ = await process.communicate()
        return output.decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what the page starts, and a failure left


def _has_answer(text: str) -> bool:
    return "phone__device_info: ok" in text


def _has_two_nodes(text: str) -> bool:
    return len(re.findall(r"http://127\.0\.0\.1:\d+ +all", text.rpartition("name ")[2])) == 2
