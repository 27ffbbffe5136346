"""The whole store, on one PostgreSQL database."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

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
from handspan.store.switches import FINGERPRINTS, PATTERNS, JsonSkillSwitches, JsonSwitches
from handspan.store.tables.store import BesideTables, TableStore

PostgresStore: TypeAlias = TableStore[PostgresDatabase]


def address_of(settings: StoreSettings) -> StoreAddress:
    """Return the address. Raises `ConfigError` when it can't be meant."""
    url = read_secret(settings.url, os.environ, "store.url")
    address = StoreAddress(url, settings.connections, settings.timeout, settings.application_name)
    address.check()
    return address


def database_of(settings: Settings) -> PostgresDatabase:
    """Return the database of these settings, without a lease."""
    return PostgresDatabase(address_of(settings.store))


def artifacts_of(settings: Settings, database: PostgresDatabase, guard: NetGuard) -> RowArtifacts:
    """Return the artifacts in this database. Raises `ConfigError` for a bucket that can't be meant."""
    limits, bucket = ArtifactLimits.of(settings.store.artifacts), bucket_of(settings.store.objects, guard)
    return RowArtifacts(database, settings.state / "artifacts", limits, bucket, settings.store.objects.above)


def store_of(settings: Settings, guard: NetGuard, *, is_gateway: bool) -> PostgresStore:
    """Return the store of these settings. Raises `ConfigError` for an address that can't be meant."""
    database = PostgresDatabase(address_of(settings.store))
    artifacts = artifacts_of(settings, database, guard)
    return _store(database, artifacts, journal_days=settings.journal_days, is_gateway=is_gateway)


def postgres_store(
    address: StoreAddress,
    folder: Path,
    clock: Callable[[], float] = time.time,
    journal_days: float | None = None,
    elapsed: Callable[[], float] = elapsed_seconds,
    *,
    is_gateway: bool = False,
    lease_seconds: float = LEASE_SECONDS,
    limits: ArtifactLimits | None = None,
    bucket: Bucket | None = None,
    above: int = 1024 * 1024,
) -> PostgresStore:
    """Return a store in this database. `folder`: the state folder. `is_gateway`: only one may be open.

    `limits`, `bucket` and `above`: see `RowArtifacts`; for the others see `TableStore`.
    """
    database = PostgresDatabase(address)
    artifacts = RowArtifacts(database, folder / "artifacts", limits, bucket, above)
    return _store(database, artifacts, clock, journal_days, elapsed, is_gateway=is_gateway, lease_seconds=lease_seconds)


def _store(
    database: PostgresDatabase,
    artifacts: RowArtifacts,
    clock: Callable[[], float] = time.time,
    journal_days: float | None = None,
    elapsed: Callable[[], float] = elapsed_seconds,
    *,
    is_gateway: bool,
    lease_seconds: float = LEASE_SECONDS,
) -> PostgresStore:
    beside = BesideTables(
        artifacts,
        StoredIdempotency(database),
        JsonSwitches(JsonDocument(database, "disabled", PATTERNS, b"[]")),
        JsonSkillSwitches(JsonDocument(database, "skills", FINGERPRINTS, b"{}")),
    )
    leases = RowLeases(database, is_gateway=is_gateway, lease_seconds=lease_seconds)
    return TableStore(database, leases, beside, clock, journal_days, elapsed)
