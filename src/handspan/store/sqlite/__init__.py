"""One database in the state folder: `store.py` is all of it, `database.py` and `writer.py` are how it is written.

Holds:   a file for each thing that lasts; what closes half-done things after a crash (`recovery.py`); the tables
         (`migrations.py`). Folders are 700, files 600 (SPEC S6).
Imports: core, and the files beside this folder.
To add:  a class that fills a Protocol of `core/store.py`, its tables as a new step in `migrations.py`.
"""
