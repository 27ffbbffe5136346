"""The setting that names the database (SPEC K1, S5)."""

from pathlib import Path

import pytest

from handspan.config.listing import setting_rows
from handspan.config.load import load_with_sources
from handspan.core.errors import ConfigError

URL = "postgresql://ann:SECRET@db.example.com/handspan?password=SECRET&sslmode=require"


def test_the_variable_names_the_database_and_no_list_shows_its_password(tmp_path: Path) -> None:
    loaded = load_with_sources(environ={"HOME": str(tmp_path), "HANDSPAN_DATABASE_URL": URL})
    assert loaded.settings.store.url == URL
    assert "SECRET" not in repr(loaded.settings)
    [row] = [row for row in setting_rows(loaded) if row.key == "store.url"]
    assert row.value == "postgresql://…@db.example.com/handspan?password=…&sslmode=require"
    assert row.source == "environment variable HANDSPAN_DATABASE_URL"


def test_nodes_without_a_database_are_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"HANDSPAN_CLUSTER: cluster\.url: .* share their state in PostgreSQL"):
        load_with_sources(environ={"HANDSPAN_CLUSTER": "nats://a,nats://b", "HOME": "/home/ann"})
    environ = {
        "HANDSPAN_CLUSTER": "nats://u:SECRET@a",
        "HANDSPAN_DATABASE_URL": "postgresql://b/c",
        "HOME": "/home/ann",
    }
    settings = load_with_sources(environ=environ).settings
    assert settings.cluster.url == "nats://u:SECRET@a" and "SECRET" not in repr(settings)
