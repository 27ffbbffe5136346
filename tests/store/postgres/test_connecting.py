"""How the store reaches PostgreSQL: errors in words, TLS, poolers, bounds, and only one gateway (SPEC K1, S5)."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from msgspec import structs

from handspan.core.errors import ConfigError, StoreError
from handspan.store.postgres import connections
from handspan.store.postgres.connections import Connector, Raw, StoreAddress, number_values
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.migrations import MIGRATIONS
from handspan.store.postgres.store import postgres_store
from handspan.store.sqlite.migrations import MIGRATIONS as SQLITE_MIGRATIONS
from handspan.store.tables.database import TableConnection
from handspan.testing.gateway import running_gateway
from tests.postgres_engine import PostgresEngine, debian_programs, run_sql_at, schema_url, shared_url
from tests.store.postgres.conftest import store_at
from tests.stores import LEASE_SECONDS, rows_in
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("/postgres?", "/nothing?"), "there is no such database"),
        (("postgres@", "stranger:secret@"), "refuses this user"),
        (("?", "?sslmode=require&"), "it offers no TLS"),
        (("?", "?sslmode=verify-full&"), "root certificate file"),
        (("?", "?sslmod=require&"), "an option that it does not know"),
        (("?", "?sslmode=always&"), "`sslmode` parameter must be one of"),
        (("127.0.0.1", "nothing.invalid"), "the name of its computer is not known"),
    ],
)
async def test_an_address_that_does_not_work_is_said(
    state: Path, change: tuple[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(state))  # no certificate is there
    with pytest.raises(StoreError, match=told) as refused:
        await soon(store_at(schema_url(state).replace(*change), state).open())
    assert "\n" not in str(refused.value) and ".." not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:SECRET@127.0.0.1:1/x",
        "postgresql://a:SECRET#SECRET@127.0.0.1:1/x",
        "postgresql://a:SECRET/SECRET@127.0.0.1:1/x",
        "postgresql://a:SECRET?SECRET@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=a&password=SECRET@SECRET",
    ],
)
async def test_no_error_has_a_part_of_the_password(state: Path, url: str) -> None:
    with pytest.raises(StoreError, match="can't be used") as refused:
        await soon(store_at(url, state, timeout=1.0).open())
    assert "SECRET" not in str(refused.value)
    assert "SECRET" not in repr(StoreAddress(url))


async def test_an_address_of_something_else_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has to begin with postgresql://"):
        async with running_gateway(tmp_path, store={"url": "mysql://host/x"}):
            pass


async def test_sessions_of_the_server_have_a_name_and_bounds(state: Path) -> None:
    async with store_at(schema_url(state), state, timeout=7.0) as store:
        await soon(store.conversations.create(owner="ann"))
        names = rows_in(state, "SELECT application_name FROM pg_stat_activity")
        for purpose in ("writer", "reader", "lease"):
            assert (f"handspan {purpose} {os.getpid()}",) in names
        assert await store.database.fetch_one("SHOW statement_timeout") == ("7s",)


async def test_the_settings_of_the_gateway_reach_its_connections(tmp_path: Path, state: Path) -> None:
    settings = {"url": schema_url(state), "connections": 3, "timeout": 9, "application_name": "my gateway"}
    async with running_gateway(tmp_path, store=settings):
        names = rows_in(state, "SELECT application_name FROM pg_stat_activity")
        assert len([name for (name,) in names if str(name).startswith("my gateway ")]) in (2, 3)


async def test_readers_wait_for_a_connection_and_are_told_when_all_are_in_use(state: Path) -> None:
    held, released = asyncio.Event(), asyncio.Event()

    async def hold(_: TableConnection) -> None:
        held.set()
        await released.wait()

    address = StoreAddress(schema_url(state), connections=3, timeout=WAIT)  # one of them reads
    async with postgres_store(address, state, lease_seconds=LEASE_SECONDS) as store:
        holding = asyncio.create_task(store.database.read_few(hold))
        await soon(held.wait())
        waiting = [asyncio.create_task(store.tokens.all(owner="ann")) for _ in range(20)]
        await asyncio.sleep(0)  # each of them begins to wait
        store.database.address = structs.replace(address, timeout=0.01)
        with pytest.raises(StoreError, match=r"all its connections are in use\. Raise `store.connections`"):
            await soon(store.database.fetch_one("SELECT 1"))
        released.set()
        await soon(asyncio.gather(holding, *waiting))
        used = rows_in(state, f"SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'handspan % {os.getpid()}'")
        assert len(used) <= 3


async def test_a_server_that_takes_no_more_connections_is_said(state: Path) -> None:
    url, name = schema_url(state), f"limited_{os.getpid()}"
    schema = url.rpartition("=")[2]
    run_sql_at(url, f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 1")
    try:
        run_sql_at(url, f"GRANT ALL ON SCHEMA {schema} TO {name}")
        with pytest.raises(StoreError, match=r"it takes no more connections\. Raise its `max_connections`, or lower"):
            await soon(store_at(url.replace("postgres@", f"{name}@"), state).open())
    finally:
        run_sql_at(url, f"DROP OWNED BY {name}")
        run_sql_at(url, f"DROP ROLE {name}")


async def test_a_second_gateway_is_refused_and_told_which_one_has_the_database(tmp_path: Path, state: Path) -> None:
    settings = {"url": schema_url(state)}
    async with running_gateway(tmp_path / "one", store=settings):
        with pytest.raises(StoreError, match=rf"Another gateway uses the database .*process {os.getpid()}, since 2"):
            async with running_gateway(tmp_path / "two", store=settings):
                pass
    async with running_gateway(tmp_path / "two", store=settings):  # the first one is gone
        pass


async def test_a_process_whose_lease_was_taken_writes_nothing_any_more(state: Path) -> None:
    async with store_at(schema_url(state), state) as store:
        rows_in(state, "DELETE FROM leases")
        await until(store.check_writes)
        with pytest.raises(StoreError, match="Another process has taken over"):
            await soon(store.conversations.create(owner="ann"))


async def test_a_connection_whose_maker_is_cancelled_is_closed(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address, made, connect = StoreAddress(schema_url(state)), list[Raw](), asyncpg.connect

    async def connect_and_note(*given: object, **options: object) -> Raw:
        made.append(await connect(*given, **options))
        return made[-1]

    monkeypatch.setattr(asyncpg, "connect", connect_and_note)
    monkeypatch.setattr(connections, "_settings_statement", lambda timeout: "SELECT pg_sleep(60)")
    connecting = asyncio.create_task(Connector(address).connect("reader"))
    await until(lambda: made)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(connecting)
    assert made[0].is_closed()


async def test_two_starts_at_once_make_the_tables_once(state: Path) -> None:
    url = schema_url(state)
    stores = [store_at(url, state) for _ in range(4)]
    await soon(asyncio.gather(*(store.open() for store in stores)))
    await soon(asyncio.gather(*(store.close() for store in stores)))
    assert rows_in(state, "SELECT count(*) FROM migrations") == [(len(MIGRATIONS) + 1,)]


def test_both_databases_have_the_same_steps_and_what_only_one_needs_is_empty_in_the_other() -> None:
    assert len(MIGRATIONS) == len(SQLITE_MIGRATIONS)
    alone = [step for step, other in zip(MIGRATIONS, SQLITE_MIGRATIONS, strict=True) if not other]
    made = [" ".join(step.split()[:3]) for step in alone]
    tables = ["CREATE TABLE artifacts", "CREATE TABLE nodes", "CREATE TABLE named_leases"]
    assert made == [*tables, "CREATE UNIQUE INDEX", "ALTER TABLE clients", "DELETE FROM clients", "ALTER TABLE nodes"]


async def test_a_database_of_a_newer_version_is_refused_with_words(state: Path) -> None:
    async with store_at(schema_url(state), state):
        rows_in(state, "INSERT INTO migrations VALUES (99, now())")
    with pytest.raises(StoreError, match="is of version 99, and this Handspan knows versions up to"):
        await soon(PostgresDatabase(StoreAddress(schema_url(state))).open())


def test_values_are_numbered_and_get_the_types_of_comments() -> None:
    assert number_values("SELECT ?, ?/*double precision*/ WHERE a = ?") == (
        "SELECT $1, $2::double precision WHERE a = $3"
    )


def test_without_the_setting_nothing_of_it_is_imported() -> None:
    code = (
        "import handspan.gateway.gateway, sys;"
        "late = ('asyncpg', 'store.postgres', 'nats', 'gateway.nodes.', 'sources.nodes', 'bus.link');"
        "found = {n for n in sys.modules if any(one in n for one in late)};"
        "print(sorted(found - {'handspan.gateway.nodes.choice'}))"  # it chooses whether there are others
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


# TLS.


def _make_certificate(folder: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1", "-out", str(folder / "server.crt"), "-keyout", str(folder / "server.key")],
        check=True, capture_output=True,
    )  # fmt: skip
    owner = folder.stat()
    for name in ("server.crt", "server.key"):
        os.chown(folder / name, owner.st_uid, owner.st_gid)
        (folder / name).chmod(0o600 if name.endswith("key") else 0o644)


@pytest.mark.skipif(
    shutil.which("openssl") is None or debian_programs() is None,
    reason="no PostgreSQL with TLS: apt-get install openssl postgresql",
)
async def test_the_connection_is_encrypted_and_the_server_is_checked(state: Path, tmp_path: Path) -> None:
    engine = PostgresEngine("ssl=on", programs=debian_programs())
    try:
        _make_certificate(engine.data)
        engine.start()
        trusted = tmp_path / "root.crt"
        shutil.copy(engine.data / "server.crt", trusted)
        checked = f"{engine.url}?sslmode=verify-full&sslrootcert={trusted}"
        async with store_at(checked, state) as store:
            sql = "SELECT count(*) FROM pg_stat_ssl WHERE ssl"
            assert (await store.database.fetch_one(sql) or (0,))[0] >= 2
        (tmp_path / "other").mkdir()
        os.chown(tmp_path / "other", os.geteuid(), os.getegid())
        _make_certificate(tmp_path / "other")
        with pytest.raises(StoreError, match="no safe connection to it"):
            await soon(store_at(checked.replace(str(trusted), str(tmp_path / "other" / "server.crt")), state).open())
    finally:
        engine.remove()


# PgBouncer.


async def can_connect(url: str) -> bool:
    """Whether something answers there."""
    try:
        await asyncio.to_thread(run_sql_at, url, "SELECT 1")
    except OSError:
        return False
    return True


_BOUNCER = shutil.which("pgbouncer") or ("/usr/sbin/pgbouncer" if Path("/usr/sbin/pgbouncer").exists() else None)


@contextmanager
def pgbouncer(folder: Path, mode: str) -> Iterator[str]:
    """A PgBouncer in front of the server of the tests; its address."""
    port = int(shared_url().rpartition(":")[2].split("/")[0])
    own = port + 1 if port < 60000 else port - 1
    folder.mkdir(mode=0o755)
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {own}\nauth_type = any\nauth_file = {folder}/users\npool_mode = {mode}\n"
        f"unix_socket_dir =\nignore_startup_parameters = search_path,extra_float_digits\n"
    )
    command = [str(_BOUNCER), str(folder / "ini")]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            yield f"postgresql://postgres@127.0.0.1:{own}/"
        finally:
            running.terminate()


@pytest.mark.skipif(_BOUNCER is None, reason="no PgBouncer: apt-get install pgbouncer")
async def test_pgbouncer_works_in_session_mode_and_is_refused_in_transaction_mode(state: Path) -> None:
    folder = Path(f"/tmp/handspan-bouncer-{os.getpid()}")
    for mode in ("session", "transaction"):
        name = f"bouncer_{mode}_{os.getpid()}"
        run_sql_at(shared_url(), f"CREATE DATABASE {name}")
        try:
            with pgbouncer(folder, mode) as server:
                url = server + name
                store = store_at(url, state, timeout=10.0)

                await until(partial(can_connect, url))
                if mode == "session":
                    async with store:
                        await soon(store.conversations.create(owner="ann"))
                else:
                    with pytest.raises(StoreError, match="PgBouncer in transaction mode"):
                        await soon(store.open())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            run_sql_at(shared_url(), f"DROP DATABASE {name}")
