"""The tables of the store, for every database: one file for each thing that lasts.

Holds:   `store.py` (the whole store; read it first), `database.py` (what these files ask of a database), a file for
         each thing that is stored as rows, `recovery.py` (what closes unfinished work after a crash), `rows.py` (calls
         as rows, page cursors), `search.py` (the index of words), `migrations.py` (the tables themselves, as numbered
         steps).
         A method of a Protocol is explained in `core/store.py`, and here only where these tables add something.
         Statements are SQL that SQLite and PostgreSQL understand alike; `?` stands for a value.
Imports: core, and the files beside this folder.
To add:  a class that implements a Protocol of `core/store.py`; its tables in `migrations.py`.
"""
