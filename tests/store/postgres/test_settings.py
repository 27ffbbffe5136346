"""The setting that names the database (SPEC K1, S5)."""

from pathlib import Path

from handspan.config.listing import setting_rows
from handspan.config.load import load_with_sources

URL = "postgresql://ann:SECRET@db.example.com/handspan?password=SECRET&sslmode=require"


def test_the_variable_names_the_database_and_no_list_shows_its_password(tmp_path: Path) -> None:
    loaded = load_with_sources(environ={"HOME": str(tmp_path), "HANDSPAN_DATABASE_URL": URL})
    assert loaded.settings.store.url == URL
    assert "SECRET" not in repr(loaded.settings)
    [row] = [row for row in setting_rows(loaded) if row.key == "store.url"]
    assert row.value == "postgresql://…@db.example.com/handspan?password=…&sslmode=require"
    assert row.source == "environment variable HANDSPAN_DATABASE_URL"
