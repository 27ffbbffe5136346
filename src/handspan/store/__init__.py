"""WHAT MUST LAST: what has to be there after a restart.

Holds:   the database (`store.py` is all of it; `database.py` and `writer.py` are how it is written), a file for each
         thing in it, what closes half-done things after a crash (`recovery.py`); artifacts and switches as files of
         their own. Everything is in the state folder; folders are 700, files 600 (SPEC S6).
Imports: core, wire, config, net.
To add:  one file a thing that lasts, behind a Protocol of core; its tables as a new step in `migrations.py`.
"""
