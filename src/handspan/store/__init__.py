"""DATA THAT LASTS: everything that has to be there after a restart.

Holds:   `tables/`, which implements all of `core/store.py` on any database; `sqlite/`, a database in the state folder;
         `postgres/`, a database by its address; `objects/`, an object storage for large artifacts. Beside them what is
         stored as files: `artifacts.py` with `bodies.py` (the bytes on their way, uploads too), `switches.py`,
         `idempotency.py`; `unwritten_results.py`, what a database did not take at once; `late_starts.py`, starts of
         calls that only read; `journal_clock.py`, how the journal ages. Files are in the state folder; folders have
         mode 700, files 600 (SPEC S6).
Imports: config, core, net. Only `gateway/stores.py` imports from here: a contract checks that.
To add:  a thing that lasts: its Protocol in `core/store.py` as a property of `Store`, its nouns in `core/records.py`, a
         file in `tables/`, a step in `tables/migrations.py`, its tests in `tests/store/`.
         A database: a folder with a class that implements `Database` of `tables/database.py`, its choice in
         `gateway/stores.py`, its name in `BACKENDS` of `tests/stores.py`: then `tests/store/` runs on it, too.
"""
