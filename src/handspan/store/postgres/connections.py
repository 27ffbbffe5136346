"""How a connection to PostgreSQL is made, how a work uses it, and what its errors mean.

Connections are kept open, without a pool that resets them: the reset costs a round trip each time. The settings of a
session are sent once, after it has begun: PgBouncer refuses such settings in the first packet.
"""

import asyncio
import contextlib
import os
import re
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import asyncpg
from msgspec import Struct

from handspan.core.errors import ConfigError, HandspanError, StoreError
from handspan.store.tables.rows import Row


class Raw(Protocol):
    """The methods of asyncpg's connection that we use. asyncpg itself has no types."""

    async def execute(self, query: str, *values: object) -> str: ...
    async def fetch(self, query: str, *values: object) -> list[Any]: ...
    async def fetchrow(self, query: str, *values: object) -> Any: ...
    async def fetchval(self, query: str, *values: object) -> Any: ...
    async def fetchmany(self, query: str, rows: Sequence[Row]) -> list[Any]: ...
    def transaction(
        self, *, isolation: str | None = None, readonly: bool = False
    ) -> AbstractAsyncContextManager[object]: ...
    async def close(self, *, timeout: float | None = None) -> None: ...
    def terminate(self) -> None: ...
    def is_closed(self) -> bool: ...


_PLACEHOLDER: Final = re.compile(r"\?(?:/\*([a-z ]+)\*/)?")
_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 1.0
_GRACE: Final = 2.0
"""Seconds that an answer may take beyond the statement timeout of the server."""
_KEEPALIVE: Final = (("idle", "10"), ("interval", "5"), ("count", "3"))
"""Lets the server notice within half a minute that this computer is gone, and release its locks."""

TRANSACTION_MODE: Final = (
    "it is behind PgBouncer in transaction mode, or a pooler like it: a connection moves between processes of the"
    " server, so locks and prepared statements are lost. Set `pool_mode = session`, or let `store.url` lead to"
    " PostgreSQL itself"
)
_TAKES_NO_WRITES: Final = "25006"
"""The code of a standby, and of a database that was made read-only."""
_ADVICE: Final = {
    "26000": TRANSACTION_MODE,
    "42P05": TRANSACTION_MODE,
    "28": "it refuses this user. Correct name and password in `store.url`",
    "3D000": "there is no such database. Create it: `createdb NAME`",
    "3F000": "its `search_path` names no schema that exists. Create the schema, or correct `store.url`",
    "42704": "its address has an option that it does not know ({}). Correct what stands behind `?` in `store.url`",
    "42501": "this user lacks a right ({}). Let the user own the database, or its schema",
    "53100": "its disk is full. Make room; nothing that was acknowledged is lost",
    "53300": "it takes no more connections. Raise its `max_connections`, or lower `store.connections`",
    "53400": "it takes no more connections. Raise its limits, or lower `store.connections`",
    "53": "it lacks resources ({}). Look after its server",
    "55P03": "another program holds a lock for too long. Look at `pg_stat_activity`",
    "57014": "a statement took longer than `store.timeout`. Look at its load, or raise that setting",
    "57P03": "it is being started or stopped. It is tried again",
    "57P": "it is being stopped. It is tried again",
    _TAKES_NO_WRITES: "it takes no writes: this is a standby. Let `store.url` lead to the primary, or add"
    " `target_session_attrs=read-write` to it",
    "25P03": "a transaction was idle for too long. Look at the load of this gateway",
    "58": "its disk fails ({}). Look after its server",
    "XX": "it is damaged, or has a fault ({}). Look at its log",
}
_DATABASE_ERRORS: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # also when a server has said that it stops, and has not closed the connection yet
)
"""The errors when the database, or the network to it, fails."""
_NO_TLS: Final = "rejected SSL upgrade"
"""What asyncpg says when the server offers no TLS; it has no type for this error."""
_AGAIN: Final = ("40001", "40P01", "23505")
"""Codes of a transaction that failed because of another one, and can be tried again.

23505: both have added the same key.
"""


class StoreAddress(Struct, frozen=True):
    """Where the database is, and the bounds for its use."""

    url: str
    connections: int = 10
    timeout: float = 10.0
    application: str = "handspan"
    """What `application_name` begins with."""

    def __repr__(self) -> str:
        """Return a text without the password (SPEC S5)."""
        return f"StoreAddress({self.name!r})"

    @property
    def name(self) -> str:
        """The address for people: without user, password and options."""
        # A password may hold characters that should have been encoded: so only the part after the last `@` is shown.
        place, _, options = self.url.partition("://")[2].partition("?")
        is_clear = "@" not in options  # else the password may hold the `?`
        return f"postgresql://{place.rpartition('@')[2] if is_clear else '…'}"

    def check(self) -> None:
        """Raise `ConfigError` for an address that is not one of PostgreSQL."""
        if urlsplit(self.url).scheme not in ("postgresql", "postgres"):
            text = "store.url has to begin with postgresql://, as in postgresql://user:password@host:5432/handspan"
            raise ConfigError(f"{text}. Without it everything is stored in the state folder.")


class Connector:
    """Makes connections, and knows since when no connection can be made."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.problem = ""
        """Why the last try failed; empty after a success."""
        self._down_since: float | None = None
        """When the first try since the last success failed."""

    async def connect(self, purpose: str) -> Raw:
        """Return a new connection. `purpose` is a part of its `application_name`. Raises `StoreError`."""
        timeout = self.address.timeout
        try:
            raw: Raw = await asyncpg.connect(
                self.address.url,
                timeout=timeout,
                command_timeout=timeout + _GRACE,
                server_settings={"application_name": f"{self.address.application} {purpose} {os.getpid()}"},
            )
        except (*_DATABASE_ERRORS, ValueError) as error:
            self._down_since = self._down_since or time.monotonic()
            failure = store_error(error, self.address)
            self.problem = failure.message
            raise failure from error
        try:
            await raw.execute(_settings_statement(timeout))
        except BaseException as error:
            raw.terminate()
            if not is_database_error(error):
                raise
            raise store_error(error, self.address) from error
        self._down_since, self.problem = None, ""
        return raw

    async def connect_with_retries(self, purpose: str) -> Raw:
        """Return a new connection. Try again until the database has been out of reach for `timeout` seconds."""
        delay = _FIRST_DELAY
        while True:
            try:
                return await self.connect(purpose)
            except StoreError:
                down = time.monotonic() - (self._down_since or 0.0)
                if down + delay > self.address.timeout:
                    raise
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)


def _settings_statement(timeout: float) -> str:
    """Return the statement that sets the time limits and other settings of a session."""
    milliseconds = max(1, int(timeout * 1000))
    settings = [
        ("statement_timeout", f"{milliseconds}"),
        ("lock_timeout", f"{milliseconds}"),
        ("idle_in_transaction_session_timeout", f"{milliseconds * 3}"),
        ("client_min_messages", "error"),
        ("jit", "off"),
        *((f"tcp_keepalives_{name}", value) for name, value in _KEEPALIVE),
    ]
    return "; ".join(f"SET {name} = {value}" for name, value in settings)


class PostgresConnection:
    """Implements `TableConnection` for works."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    async def execute(self, sql: str, values: Row = ()) -> int:
        status = await self.raw.execute(number_values(sql), *clean_row(values))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def execute_many(self, sql: str, rows: Sequence[Row]) -> int:
        """Run a statement for each of these rows, in one go. Return the number of rows that all of them changed."""
        if not rows:
            return 0
        changed = await self.raw.fetchmany(f"{number_values(sql)} RETURNING 1", [clean_row(row) for row in rows])
        return len(changed)

    async def fetch_one(self, sql: str, values: Row = ()) -> Row | None:
        row = await self.raw.fetchrow(number_values(sql), *clean_row(values))
        return None if row is None else tuple(row)

    async def fetch_all(self, sql: str, values: Row = ()) -> Sequence[Row]:
        rows = await self.raw.fetch(number_values(sql), *clean_row(values))
        return [tuple(row) for row in rows]

    async def fetch_value(self, sql: str, values: Row = ()) -> Any:
        return await self.raw.fetchval(number_values(sql), *clean_row(values))


@cache
def number_values(sql: str) -> str:
    """Return the statement with `$1`, `$2` … for each `?`. A comment after the `?` becomes a cast to that type."""
    parts = iter(range(1, sql.count("?") + 1))

    def number(found: re.Match[str]) -> str:
        return f"${next(parts)}" + (f"::{found[1]}" if found[1] else "")

    return _PLACEHOLDER.sub(number, sql)


def clean_row(values: Row) -> Row:
    """Return the values with U+FFFD in place of the character 0, which PostgreSQL can't store in a text."""
    for value in values:
        if type(value) is str and "\0" in value:
            return tuple(one.replace("\0", "\ufffd") if type(one) is str else one for one in values)
    return values


async def close_quietly(raw: Raw) -> None:
    """Close a connection. Errors of a broken connection are ignored."""
    with contextlib.suppress(*_DATABASE_ERRORS):
        await raw.close(timeout=_GRACE)


def is_database_error(error: BaseException) -> bool:
    """Whether the database or the network to it has failed, and not our own code."""
    return isinstance(error, _DATABASE_ERRORS)


def can_try_again(error: BaseException) -> bool:
    """Whether a transaction failed because of another one."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in _AGAIN


def refuses_writes(error: BaseException) -> bool:
    """Whether the server refuses some or all writes: it lacks room or memory, its disk fails, or it is a standby."""
    states = ("53", "58", "XX", _TAKES_NO_WRITES)
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "").startswith(states)


def needs_new_connection(error: BaseException, raw: Raw) -> bool:
    """Whether the connection must not be used any more."""
    if not isinstance(error, asyncpg.PostgresError):
        return is_database_error(error) or raw.is_closed()
    return raw.is_closed() or (error.sqlstate or "").startswith(("08", "57P", _TAKES_NO_WRITES, "25P03", "XX"))


def has_certainly_failed(error: BaseException) -> bool:
    """Whether a statement certainly changed nothing, though its connection can't be used any more.

    So it is when the server takes no writes; or when asyncpg did not send the statement, because the server has said
    that it stops.
    """
    if isinstance(error, asyncpg.PostgresError):
        return bool(error.sqlstate == _TAKES_NO_WRITES)
    # asyncpg has no type for this. If a later version changes the text, the statement counts as one that may have run.
    return type(error) is asyncpg.InternalClientError and "another operation" in str(error)


def store_error(error: BaseException, address: StoreAddress) -> StoreError:
    """Return the error of the database, with advice for a person. Its text never holds the password."""
    if isinstance(error, HandspanError):
        return StoreError(str(error))
    return StoreError(f"The database {address.name} can't be used: {_advice(error)}.")


def _advice(error: BaseException) -> str:
    """Return what is wrong with the database, and what the operator can do."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        # `_ADVICE` has whole codes, beginnings that several codes share (57P), and classes: the closest counts.
        found = next((_ADVICE[state[:end]] for end in (5, 3, 2) if state[:end] in _ADVICE), None)
        return (found or "{}").format(f"{error}; {state}")
    if isinstance(error, ssl.SSLError):
        return f"no safe connection to it ({error.reason}). Correct `sslmode` and `sslrootcert` in `store.url`"
    if isinstance(error, TimeoutError):
        return "it does not answer. Look after it and the network between; nothing that was acknowledged is lost"
    if isinstance(error, ConnectionRefusedError):
        return "it refuses connections. Start it, or correct `store.url`"
    if type(error) is asyncpg.InternalClientError:  # not what inherits from it: that says its reason itself
        return "the connection to it broke. It is tried again"
    if isinstance(error, socket.gaierror):
        return "the name of its computer is not known here. Correct `store.url`, or look after the network"
    if isinstance(error, asyncpg.ClientConfigurationError):
        return f"{str(error).splitlines()[0]}. Correct `store.url`"  # the other lines explain the library
    if isinstance(error, ValueError):  # the error's text may hold a part of the password
        return "its address can't be read. In a password, %23 stands for #, %2F for /, %3F for ?, %40 for @"
    if _NO_TLS in str(error):
        return "it offers no TLS, and `sslmode` in `store.url` asks for that. Switch it on there, or change `sslmode`"
    return f"{error}. Start it, or correct `store.url`"
