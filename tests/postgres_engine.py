"""A PostgreSQL of the tests: one for the whole run, in a folder of its own, on a Unix socket and a free port.

The programs come with the package `pgserver`, or with Debian's `postgresql`; the package's own cluster is never used.
As root they run as another user. The server ends with the process that runs the tests, however that ends.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg

_T = TypeVar("_T")

HOW_TO_INSTALL: Final = (
    "no PostgreSQL for the tests: `make setup` installs pgserver where there is a wheel for it; elsewhere run"
    " `apt-get install postgresql`"
)
_NOBODY: Final = 65534
_ROOT: Final = Path(__file__).parents[1]


def find_programs() -> Path | None:
    """Return the folder with `initdb` and `postgres`, or None."""
    found = importlib.util.find_spec("pgserver")
    bundled = [Path(found.origin).parent / "pginstall" / "bin"] if found is not None and found.origin else []
    return next((folder for folder in bundled if (folder / "initdb").exists()), debian_programs())


def debian_programs() -> Path | None:
    """Return the programs of the system's package, which can TLS, or None."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class PostgresEngine:
    """One server. `start` and `stop` it as often as you like; its data stays until `remove`."""

    def __init__(
        self,
        *options: str,
        programs: Path | None = None,
        parent: Path | None = None,
        primary: "PostgresEngine | None" = None,
    ) -> None:
        """`options`: settings of the server, each as `name=value`. `parent`: where its data is; None: in memory.

        `primary`: a running server, of which this one is a replica until `promote`.
        """
        memory = Path("/dev/shm")
        parent = parent or (memory if os.access(memory, os.W_OK) else None)
        self.folder = Path(tempfile.mkdtemp(prefix="handspan-pg-", dir=parent))
        self._programs = _reachable(programs or find_programs(), self.folder)
        self.port = _free_port()
        self._options = ["fsync=off", "full_page_writes=off", "max_connections=300", "shared_buffers=32MB", *options]
        self._server: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            os.chown(self.folder, _NOBODY, _NOBODY)
        if primary is None:
            self._run(
                "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"
            )
        else:
            source = f"host=127.0.0.1 port={primary.port} user=postgres application_name=replica"
            self._run("pg_basebackup", "-D", str(self.data), "-d", source, "-R", "-X", "stream", "-c", "fast")

    @property
    def data(self) -> Path:
        """The folder of the cluster."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """The address over the loopback interface."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self, *options: str) -> None:
        """Start the server and wait until it answers."""
        given = [f"-c{option}" for option in (*self._options, *options)]
        place = [f"-k{self.folder}", f"-p{self.port}", "-h127.0.0.1"]
        log = (self.folder / "log").open("ab")
        self._server = subprocess.Popen(
            [*_as_other_user(), str(self._programs / "postgres"), "-D", str(self.data), *place, *given],
            stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
        )  # fmt: skip
        log.close()
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "status", is_checked=False)
        run_apart(lambda: _wait_for(self.url))

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends all connections in order, SIGQUIT and SIGKILL do not."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(60)
            self._server = None

    def promote(self) -> None:
        """Make a replica the primary."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "promote")

    @property
    def is_running(self) -> bool:
        """Whether its main process is there."""
        return self._server is not None and self._server.poll() is None

    def freeze(self) -> None:
        """Let no process of the server run."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them run again."""
        self._signal_all(signal.SIGCONT)

    def remove(self) -> None:
        """Stop the server and remove its data."""
        with contextlib.suppress(ProcessLookupError):
            self.thaw()
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal_all(self, which: signal.Signals) -> None:
        if self._server is not None:
            children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text().split()
            for process in (self._server.pid, *map(int, children)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, which)

    def _run(self, program: str, *arguments: str, is_checked: bool = True) -> None:
        command = [*_as_other_user(), str(self._programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False, timeout=120)
        assert done.returncode == 0 or not is_checked, done.stdout + done.stderr


def _as_other_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--inh-caps=-all"]


def _reachable(programs: Path | None, folder: Path) -> Path:
    """Return the programs; a copy of them if the other user can't reach them."""
    assert programs is not None, HOW_TO_INSTALL
    if all(parent.stat().st_mode & 0o005 == 0o005 for parent in programs.resolve().parents):
        return programs
    package, libraries = programs.parents[1], programs.parents[2] / "pgserver.libs"
    copied = folder / package.name / programs.parent.name
    shutil.copytree(programs.parent, copied, symlinks=True)
    if libraries.is_dir():  # the programs look for them beside their package
        shutil.copytree(libraries, folder / libraries.name)
    return copied / "bin"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def _wait_for(url: str) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                connection = await asyncpg.connect(url, timeout=10)
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.02)
            else:
                await connection.close()
                return


def run_apart(work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Return what the coroutine gives, on a loop of its own in a thread: also where a loop runs already."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(lambda: asyncio.run(work())).result()


# One server for the whole run.


@cache
def shared_url() -> str:
    """Return the address of the server that all tests of this run share; the first one to ask starts it."""
    if given := os.environ.get(_SHARED):
        return given
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}"
    main = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    note = Path(tempfile.gettempdir()) / f"handspan-pg-{os.geteuid()}-{run}"
    with note.open("a+") as known:
        fcntl.flock(known, fcntl.LOCK_EX)
        known.seek(0)
        url = known.read() or _start_keeper(main, note)
        os.environ[_SHARED] = url  # for the processes that tests start
        return url


_SHARED: Final = "TESTS_POSTGRES"


def _start_keeper(main: int, note: Path) -> str:
    """Start the process that holds the server and ends with the tests."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.postgres_engine", str(main), str(note)],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=_ROOT, start_new_session=True,
    )  # fmt: skip
    assert keeper.stdout is not None
    url = keeper.stdout.readline().strip()
    assert url, "the server of the tests did not start"
    keeper.stdout.close()
    keeper.returncode = 0  # it outlives this process
    note.write_text(url)
    return url


def schema_url(folder: Path) -> str:
    """Return an address whose tables belong to this folder alone."""
    name = "t" + hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:24]
    if name not in _USED:
        _make_schema(name)
        _USED.append(name)
    return f"{shared_url()}?search_path={name}"


def _make_schema(name: str) -> None:
    if not _EMPTY:
        run_sql_at(shared_url(), f"CREATE SCHEMA IF NOT EXISTS {name}")
        return
    with contextlib.suppress(asyncpg.DuplicateSchemaError):  # another process of the test has made it
        run_sql_at(shared_url(), f"ALTER SCHEMA {_EMPTY[-1]} RENAME TO {name}")
        _EMPTY.pop()


_USED: Final[list[str]] = []
"""Schemas that are made already."""
_EMPTY: Final[list[str]] = []
"""Schemas of tests that have ended, with the tables of the product and no rows: to make tables takes longest."""


@contextlib.contextmanager
def reused_schemas() -> Iterator[None]:
    """Let later tests have the schemas that are made in here, which change no table of them."""
    _USED.clear()
    yield
    for name in _USED:
        with contextlib.suppress(asyncpg.PostgresError):  # it is in use still, or has no tables
            run_sql_at(shared_url(), _EMPTIED.format(name=name))
            _EMPTY.append(name)


_EMPTIED: Final = """DO $do$ DECLARE one text; BEGIN
SET LOCAL lock_timeout = '1s';
SET LOCAL session_replication_role = replica; -- in any order, and without triggers
IF EXISTS (SELECT FROM {name}.leases JOIN pg_stat_activity ON pid = backend)
OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = '{name}'::regnamespace AND proname LIKE 'full_%')
THEN RAISE EXCEPTION 'it is in use, or was changed'; END IF;
FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = '{name}' AND tablename <> 'migrations' LOOP
    EXECUTE format('DELETE FROM {name}.%I', one);
END LOOP;
FOR one IN SELECT sequencename FROM pg_sequences WHERE schemaname = '{name}' LOOP
    EXECUTE format('ALTER SEQUENCE {name}.%I RESTART', one);
END LOOP;
END $do$"""


def run_sql_at(url: str, sql: str) -> list[tuple[object, ...]]:
    """Return the rows of a statement, on a connection of its own."""

    async def run() -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(url, timeout=30)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    return run_apart(run)


def _keep(main: int, note: Path) -> None:
    """Hold a server until the process of the tests ends."""
    engine = PostgresEngine()
    try:
        engine.start()
        print(engine.url, flush=True)  # noqa: T201 - its standard output is how the tests learn the address
        with contextlib.suppress(ProcessLookupError):
            watched = os.pidfd_open(main)
            select.select([watched], [], [])
    finally:
        engine.remove()
        note.unlink(missing_ok=True)


if __name__ == "__main__":
    _keep(int(sys.argv[1]), Path(sys.argv[2]))
