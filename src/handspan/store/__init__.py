"""WHAT MUST LAST: everything that has to be there after a restart.

Holds:   `sqlite/`, which fills all of `core/store.py`; beside it what is stored as files: `artifacts.py` with
         `partial_file.py` (uploads), `switches.py`, `idempotency.py`; `unwritten_results.py`, what a database did not
         take at once; `journal_clock.py`, how the journal ages. All of it is in the state folder; folders have
         mode 700, files 600 (SPEC S6).
Imports: config, core. Only `gateway/app.py` imports from here: a contract checks that.
To add:  a thing that lasts: its Protocol in `core/store.py` as a property of `Store`, its nouns in `core/records.py`, a
         file in `sqlite/`, its tests in `tests/store/`.
         PostgreSQL: a folder `postgres/` with a class that fills `Store`. Its leases are rows and use the database's
         clock; `start`, `finish` and `keep` return a task, because they can't wait for an answer. Choose it in
         `gateway/app.py` and add its name to `BACKENDS` of `tests/stores.py`: then `tests/store/` runs on both.
"""
