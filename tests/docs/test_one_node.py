"""docs/scale.md, word by word: one node on PostgreSQL, an installation that moves there, and the way back."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from tests.nats_engine import free_port
from tests.postgres_engine import HOW_TO_INSTALL, PostgresEngine, find_programs

_PAGE: Final = Path(__file__).parents[2] / "docs/scale.md"
_SECONDS: Final = 240
_SERVE: Final = """handspan serve --quiet --model offline --port {port} & echo $! >gateway.pid
until curl --silent --fail http://127.0.0.1:{port}/ready; do kill -0 $(cat gateway.pid); sleep 0.2; done"""
_STOP: Final = "kill $(cat gateway.pid); wait $(cat gateway.pid) || true"


@pytest.fixture
def engine() -> Iterator[PostgresEngine]:
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    engine = PostgresEngine()
    try:
        engine.start()
        yield engine
    finally:
        engine.remove()


class Reader:
    """A person who does what the page says, with a server, a port and a home folder of their own."""

    def __init__(self, engine: PostgresEngine, home: Path) -> None:
        self._engine = engine
        self._home = home
        self._port = free_port()
        self._page = _PAGE.read_text(encoding="utf-8")

    def block(self, section: str, number: int) -> str:
        """The commands of a block of this section, as the page has them."""
        text = self._page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        blocks: list[tuple[str, str]] = re.findall(r"^( *)```\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
        return dedent(blocks[number][1]).strip()

    def follow(self, *blocks: str) -> str:
        """What is printed. The server is on this computer, so the page wants no TLS."""
        serve = _SERVE.format(port=self._port)
        text = "\n".join(blocks).replace("?sslmode=verify-full", "")
        text = re.sub("^handspan serve$", serve, text, flags=re.MULTILINE)
        text = text.replace("createuser --pwprompt", "printf 'PASSWORD\\nPASSWORD\\n' | createuser --pwprompt")
        return self._run(text.replace("db.example.com:5432", f"127.0.0.1:{self._engine.port}"))

    def _run(self, script: str) -> str:
        programs = f"{Path(sys.executable).parent}:{find_programs()}:{os.environ['PATH']}"
        server = {"PGHOST": "127.0.0.1", "PGPORT": str(self._engine.port), "PGUSER": "postgres"}
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self._home, start_new_session=True, text=True,
            env={**os.environ, **server, "PATH": programs, "HOME": str(self._home)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what a failure left
        assert process.returncode == 0, printed
        return printed


@pytest.fixture
def reader(engine: PostgresEngine, tmp_path: Path) -> Reader:
    return Reader(engine, tmp_path)


def test_the_page_sets_one_node_up_and_refuses_a_second_one(reader: Reader) -> None:
    second = "! handspan serve --model offline --port 0 --state other"
    user, address = reader.block("Set it up", 1), reader.block("Set it up", 2)
    printed = reader.follow(user, address, "handspan doctor || true", second, _STOP)
    assert "store: PostgreSQL takes writes" in printed
    assert re.search(r"Another gateway uses the database \S+: handspan on .*, process \d+, since ", printed)


def test_the_page_moves_an_installation_and_brings_a_backup_back(reader: Reader) -> None:
    move, backup = reader.block("Move an installation", 0), reader.block("Backup", 0)
    address = reader.block("Set it up", 2).partition("\n")[0]
    here = ["handspan serve", "handspan call get_current_time", _STOP]
    there = [address, "handspan serve", "handspan calls | grep get_current_time", backup, _STOP]
    restored = address.replace("5432/handspan", "5432/restored")
    back = ["createdb --owner handspan restored", restored, "rm -r .local/state/handspan",
            'pg_restore --dbname="$HANDSPAN_DATABASE_URL" handspan.dump',
            "tar --extract --file=handspan-state.tar --directory=.local/state",
            "handspan store check", "handspan serve", "handspan calls | grep get_current_time", _STOP]  # fmt: skip
    printed = reader.follow(*here, reader.block("Set it up", 1), move, move, *there, *back)
    assert "rows are moved, and all of them are equal" in printed
    assert "rows were there already, and all of them are equal" in printed
    assert "All of it fits together." in printed
