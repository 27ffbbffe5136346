"""Any SQLite file as tools: each query of a declared list is one. Nothing else can be asked, and nothing is written.

python examples/providers/shop.py    (makes the database that shop.toml names)
python examples/providers/sqlite_queries.py examples/providers/shop.toml install    (then serve, remove)
"""

import contextlib
import sqlite3
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from handspan.core.values import JsonObject
from handspan.provider import Provider, ProviderError

MAX_ROWS = 200
SECONDS = 5.0
HOW_TO_MAKE = "Name one that there is; for shop.toml run: python examples/providers/shop.py"
READING = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))


def make_app(file: Path) -> Provider:
    """A provider with one tool for each query of this TOML file. Raises `ValueError` when something in it is wrong."""
    try:
        declared = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(file)!r} can't be read: {error}. Name a TOML file like shop.toml.") from None
    database = file.parent / declared["database"]
    if not database.is_file():
        raise ValueError(f"{file}: there is no database {str(database)!r}. {HOW_TO_MAKE}")
    app = Provider(declared["id"], label=declared.get("label", ""), description=declared.get("description", ""))
    for query in declared["queries"]:
        properties = query.get("parameters", {})
        try:
            read_rows(database, f"EXPLAIN {query['sql']}", dict.fromkeys(properties))
        except sqlite3.Error as error:
            raise ValueError(f"{file}: the query {query['name']!r} can't be used: {error}") from None
        schema = {
            "type": "object",
            "properties": properties,
            "required": [name for name, schema in properties.items() if "default" not in schema],
            "additionalProperties": False,
        }
        app.add_tool(query["name"], query["description"], schema, make_query(database, query["sql"], properties))
    return app


def make_query(database: Path, sql: str, properties: dict[str, Any]) -> Any:
    """The code of one tool."""
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}

    def run(arguments: JsonObject) -> object:
        try:
            return read_rows(database, sql, {**defaults, **arguments})
        except sqlite3.Error as error:
            raise ProviderError("INTERNAL_ERROR", f"The database says: {error}") from None

    return run


def read_rows(database: Path, sql: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The first rows. Neither a query nor a value of it can write, attach a file or take long."""
    address = f"{database.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=1.0)) as connection:
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)
        until = time.monotonic() + SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        found = connection.execute(sql, values)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchmany(MAX_ROWS)]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    declared_in = Path(sys.argv[1]).expanduser().absolute()
    try:
        app = make_app(declared_in)
    except ValueError as error:
        sys.exit(str(error))
    app.main(sys.argv[2:], before=[str(declared_in)])
