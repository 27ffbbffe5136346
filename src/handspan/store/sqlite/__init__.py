"""One SQLite database in the state folder.

Holds:   `store.py` (the whole store; read it first), `database.py` and `writer.py` (how it is read and written), a file
         for each thing that lasts, `recovery.py` (what closes unfinished work after a crash), `migrations.py` (the
         tables), `rows.py` (calls as rows, page cursors). Folders have mode 700, files 600 (SPEC S6).
Imports: config, core, and the files beside this folder.
To add:  a class that fills a Protocol of `core/store.py`, its tables as a new step in `migrations.py`.
"""
