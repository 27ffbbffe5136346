"""The whole store, on one PostgreSQL database."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from handspan.config.secrets import read_secret
from handspan.config.settings import Settings, StoreSettings
from handspan.net.guard import NetGuard
from handspan.store.artifacts import ArtifactLimits
from handspan.store.journal_clock import elapsed_seconds
from handspan.store.objects.bucket import Bucket, bucket_of
from handspan.store.postgres.artifacts import RowArtifacts
from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.documents import JsonDocument, StoredIdempotency
from handspan.store.postgres.leases import LEASE_SECONDS, RowLeases
from handspan.store.postgres.node_leases import NodeLeases
from handspan.store.postgres.nodes import StoredNodes
from handspan.store.switches import FINGERPRINTS, PATTERNS, JsonSkillSwitches, JsonSwitches
from handspan.store.tables.store import BesideTables, TableStore

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


def artifacts_of(settings: Settings, database: PostgresDatabase, guard: NetGuard) -> RowArtifacts:
    """Return the artifacts in this database. Raises `ConfigError` for wrong settings of the bucket."""
    limits, bucket = ArtifactLimits.of(settings.store.artifacts), bucket_of(settings.store.objects, guard)
    return RowArtifacts(database, settings.state / "artifacts", limits, bucket, settings.store.objects.above)


def store_of(settings: Settings, guard: NetGuard, *, is_gateway: bool) -> PostgresStore:
    """Return the store of these settings. Raises `ConfigError` for a wrong address."""
    database, cluster = PostgresDatabase(address_of(settings.store)), settings.cluster
    artifacts = artifacts_of(settings, database, guard)
    days = settings.journal_days
    node = None
    if is_gateway and cluster.url:
        node = NodeName(cluster.name or socket.gethostname(), cluster.role)
    leases = _leases(database, is_gateway, node, LEASE_SECONDS if node is None else cluster.lease)
    return _store(database, artifacts, leases, journal_days=days)


class NodeName(Struct, frozen=True):
    """The name and role under which other nodes see a node."""

    name: str
    role: str = "all"


def postgres_store(
    address: StoreAddress,
    folder: Path,
    clock: Callable[[], float] = time.time,
    journal_days: float | None = None,
    elapsed: Callable[[], float] = elapsed_seconds,
    *,
    is_gateway: bool = False,
    node: NodeName | None = None,
    lease_seconds: float = LEASE_SECONDS,
    limits: ArtifactLimits | None = None,
    bucket: Bucket | None = None,
    above: int = 1024 * 1024,
) -> PostgresStore:
    """Return a store in this database. `folder`: the state folder. `is_gateway`: only one gateway may use it.

    `node`: the gateway is one of several nodes that use it. For `limits`, `bucket` and `above` see `RowArtifacts`; for
    the other parameters see `TableStore`.
    """
    database = PostgresDatabase(address)
    artifacts = RowArtifacts(database, folder / "artifacts", limits, bucket, above)
    leases = _leases(database, is_gateway, node, lease_seconds)
    return _store(database, artifacts, leases, clock, journal_days, elapsed)


def _leases(
    database: PostgresDatabase, is_gateway: bool, node: NodeName | None, seconds: float
) -> RowLeases | NodeLeases:
    if node is None:
        return RowLeases(database, is_gateway=is_gateway, lease_seconds=seconds)
    return NodeLeases(database, name=node.name, role=node.role, lease_seconds=seconds)


def _store(
    database: PostgresDatabase,
    artifacts: RowArtifacts,
    leases: RowLeases | NodeLeases,
    clock: Callable[[], float] = time.time,
    journal_days: float | None = None,
    elapsed: Callable[[], float] = elapsed_seconds,
) -> PostgresStore:
    nodes = None
    if isinstance(leases, NodeLeases):
        nodes = StoredNodes(database, leases)
        clock = leases.now if clock is time.time else clock
    beside = BesideTables(
        artifacts,
        StoredIdempotency(database),
        JsonSwitches(JsonDocument(database, "disabled", PATTERNS, b"[]")),
        JsonSkillSwitches(JsonDocument(database, "skills", FINGERPRINTS, b"{}")),
        nodes,
    )
    return TableStore(database, leases, beside, clock, journal_days, elapsed)
