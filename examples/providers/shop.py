"""Make shop.db, the database of shop.toml: a few orders of a small shop.

python examples/providers/shop.py
"""

import contextlib
import sqlite3
from pathlib import Path

ORDERS = [
    (1, "Ann", "2026-01-02", 10.5),
    (2, "Ann", "2026-02-03", 4.0),
    (3, "Bob", "2026-02-09", 7.0),
    (4, "Cleo", "2026-03-21", 32.8),
]


def make_database(file: Path) -> None:
    """Write the orders into this file. Orders that are in it already are replaced."""
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, day TEXT, total REAL)")
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)


if __name__ == "__main__":
    make_database(Path(__file__).with_name("shop.db"))
