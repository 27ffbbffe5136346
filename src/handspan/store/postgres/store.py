"""The whole store, on one PostgreSQL database."""

import os
import socket
import time
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct, structs

from handspan.config.secrets import read_secret
from handspan.config.settings import Settings
from handspan.config.store_settings import ArtifactSettings, StoreSettings
from handspan.core.words import is_beginning
from handspan.net.guard import NetGuard
from handspan.store.objects.bucket import Bucket, bucket_of
from handspan.store.postgres.artifacts import RowArtifacts
from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.documents import JsonDocument, StoredIdempotency
from handspan.store.postgres.leases import LEASE_SECONDS, RowLeases
from handspan.store.postgres.node_leases import NodeLeases
from handspan.store.postgres.nodes import StoredNodes
from handspan.store.switches import FINGERPRINTS, PATTERNS, JsonSkillSwitches, JsonSwitches
from handspan.store.tables.search import SearchSql
from handspan.store.tables.store import BesideTables, StoreOptions, TableStore

_HAS_WORDS: Final = "array_to_tsvector(string_to_array(words, ' ')) @@ CAST(?/*text*/ AS tsquery)"
SEARCH_SQL: Final = SearchSql(
    f"(part = 0 AND {_HAS_WORDS})",
    f"(part = 1 AND {_HAS_WORDS})",
    lambda words: " & ".join(f"'{word}'{':*' * is_beginning(word)}" for word in words),
)
PostgresStore: TypeAlias = TableStore[PostgresDatabase]


def address_of(settings: StoreSettings) -> StoreAddress:
    """Return the address of the database. Raises `ConfigError` for a wrong address."""
    url = read_secret(settings.url, os.environ, "store.url")
    address = StoreAddress(url, settings.connections, settings.timeout, settings.application_name)
    address.check()
    return address


def database_of(settings: Settings) -> PostgresDatabase:
    """Return the database of these settings, without a lease."""
    return PostgresDatabase(address_of(settings.store))


def store_of(settings: Settings, guard: NetGuard, *, is_gateway: bool) -> PostgresStore:
    """Return the store of these settings. Raises `ConfigError` for wrong settings of the database or the bucket."""
    store, cluster = settings.store, settings.cluster
    is_node = is_gateway and bool(cluster.url)
    return postgres_store(
        address_of(store),
        settings.state,
        StoreOptions(journal_days=settings.journal_days, most_versions=store.versions, undo_seconds=store.undo_seconds),
        is_gateway=is_gateway,
        node=NodeName(cluster.name or socket.gethostname(), cluster.role) if is_node else None,
        lease_seconds=cluster.lease if is_node else LEASE_SECONDS,
        limits=store.artifacts,
        bucket=bucket_of(store.objects, guard),
        above=store.objects.above,
    )


class NodeName(Struct, frozen=True):
    """The name and role under which other nodes see a node."""

    name: str
    role: str = "all"


def postgres_store(
    address: StoreAddress,
    folder: Path,
    options: StoreOptions | None = None,
    *,
    is_gateway: bool = False,
    node: NodeName | None = None,
    lease_seconds: float = LEASE_SECONDS,
    limits: ArtifactSettings | None = None,
    bucket: Bucket | None = None,
    above: int = 1024 * 1024,
) -> PostgresStore:
    """Return a store in this database. `folder`: the state folder. `is_gateway`: only one gateway may use it.

    `node`: the gateway is one of several nodes that use it. For `limits`, `bucket` and `above` see `RowArtifacts`.
    """
    database, options = PostgresDatabase(address), options or StoreOptions()
    leases: RowLeases | NodeLeases = RowLeases(database, is_gateway=is_gateway, lease_seconds=lease_seconds)
    nodes = None
    if node is not None:
        leases = NodeLeases(database, name=node.name, role=node.role, lease_seconds=lease_seconds)
        nodes = StoredNodes(database, leases)
        options = structs.replace(options, clock=leases.now) if options.clock is time.time else options
    beside = BesideTables(
        RowArtifacts(database, folder / "artifacts", limits, bucket, above=above),
        StoredIdempotency(database),
        JsonSwitches(JsonDocument(database, "disabled", PATTERNS, b"[]")),
        JsonSkillSwitches(JsonDocument(database, "skills", FINGERPRINTS, b"{}")),
        nodes=nodes,
    )
    return TableStore(database, leases, beside, options, search=SEARCH_SQL)
