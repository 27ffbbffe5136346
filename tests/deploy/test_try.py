"""`deploy/cluster/try.sh`: one command starts three nodes, and Ctrl-C leaves nothing behind."""

import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx2
import pytest

from tests.deploy.test_files import DEPLOY
from tests.nats_engine import need_server
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, schema_url
from tests.waiting import WAIT, soon

_NEEDED = (0, 1, 2, 10, 11)
"""The ports that the script takes, counted from the first: the nodes, PostgreSQL and NATS."""


def free_ports() -> int:
    """A port that is free, with the others that the script takes; none of those that the system gives to clients."""
    for first in random.sample(range(20_000, 30_000), 1000):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for place in _NEEDED:
                stack.enter_context(socket.create_server(("127.0.0.1", first + place)))
            return first
    raise AssertionError("no free ports")


@pytest.mark.anyio
async def test_one_command_starts_three_nodes_and_ends_them(tmp_path: Path) -> None:
    need_server()
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    port = free_ports()
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "HOME": str(tmp_path),
        "HANDSPAN_DATABASE_URL": schema_url(tmp_path / "state"),  # PostgreSQL does not run as root, as tests may
    }
    script = await asyncio.create_subprocess_exec(str(DEPLOY / "cluster/try.sh"), str(port), stdout=PIPE, env=environ)
    assert script.stdout is not None
    said = b""
    try:
        while b"Ctrl-C ends them" not in said:
            line = await soon(script.stdout.readline())
            assert line, said
            said += line
        token = re.findall(rb"HANDSPAN_TOKEN=(\w+)", said)[0].decode()
        async with httpx2.AsyncClient(timeout=WAIT, headers={"Authorization": f"Bearer {token}"}) as client:
            for place in range(3):
                nodes = (await client.get(f"http://127.0.0.1:{port + place}/api/nodes")).json()["nodes"]
                assert [one["name"] for one in nodes] == ["node1", "node2", "node3"]
    finally:
        script.send_signal(signal.SIGINT)
        await soon(script.stdout.read())  # to its end: a loop that ends before would leave the pipe open
        assert await soon(script.wait()) == 0
    assert [name for name in os.listdir(tmp_path) if name.startswith("tmp.")] == []


def run_with(programs: Path, *names: str, user: int = 1000, **environ: str) -> subprocess.CompletedProcess[str]:
    """The script as this user, with these programs only."""
    programs.mkdir()
    for name in ("sh", "find", "sort", "tail", *names):
        (programs / name).symlink_to(shutil.which(name) or "/bin/true")
    (programs / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (programs / "id").chmod(0o755)
    return subprocess.run(
        [str(DEPLOY / "cluster/try.sh")],
        env={"PATH": str(programs), **environ},
        capture_output=True,
        text=True,
        timeout=WAIT,
    )


def test_what_is_missing_is_named_before_anything_starts(tmp_path: Path) -> None:
    done = run_with(tmp_path / "bin", HANDSPAN_DATABASE_URL="postgresql://nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(r"handspan: pip install .*\n  nats-server: apt-get install", done.stderr), done.stderr
    assert "initdb" not in done.stderr, "a database is there"


def test_root_is_told_to_be_another_user_or_to_name_a_database(tmp_path: Path) -> None:
    done = run_with(tmp_path / "bin", "handspan", "nats-server", user=0)
    assert (done.returncode, done.stdout) == (1, "")
    assert "run this as another user, or set HANDSPAN_DATABASE_URL" in done.stderr


def test_a_node_that_ends_is_told_without_words_of_kill(tmp_path: Path) -> None:
    programs = ("handspan", "nats-server", "mktemp", "od", "tr", "rm", "sleep", "grep")
    done = run_with(tmp_path / "bin", *programs, HANDSPAN_DATABASE_URL="postgresql://nowhere", TMPDIR=str(tmp_path))
    assert done.returncode == 1 and "ended" in done.stderr and "No such process" not in done.stderr
    assert [name for name in os.listdir(tmp_path) if name.startswith("tmp.")] == []
