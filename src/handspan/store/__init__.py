"""WHAT MUST LAST: what has to be there after a restart.

Holds:   `sqlite/`, which fills all of `core/store.py`; beside it what is kept as files: artifacts, switches, the
         secret of idempotency. Everything is in the state folder; folders are 700, files 600 (SPEC S6).
Imports: config, core. Only `gateway/app.py` imports from here: a contract keeps it so.
To add:  a thing that lasts: its Protocol in `core/store.py` as a property of `Store`, its nouns in `core/records.py`, a
         file in `sqlite/`, its tests in `tests/store/`.
         PostgreSQL: a folder `postgres/` with a class that fills `Store` (leases are rows there, by the database's own
         clock; what can't wait for an answer, `start`, `finish` and `keep`, gives a task), its choice in
         `gateway/app.py`, and its name in `BACKENDS` of `tests/stores.py`: `tests/store/` runs on both then.
"""
