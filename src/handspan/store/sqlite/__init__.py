"""One SQLite database in the state folder.

Holds:   `store.py` (the whole store), `database.py` and `writer.py` (how it is read, copied and written), `leases.py`
         (which processes live), `migrations.py` (what it alone has in the tables).
         Folders have mode 700, files 600 (SPEC S6).
Imports: config, core, and the files beside this folder.
To add:  a table: its step in `tables/migrations.py`.
"""
