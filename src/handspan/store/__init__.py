"""WHAT MUST LAST: what has to be there after a restart.

Holds:   `sqlite/`, the database; artifacts and switches as files of their own. Everything is in the state folder;
         folders are 700, files 600 (SPEC S6).
Imports: core, wire, config, net.
To add:  one file a thing that lasts, behind a Protocol of core; another database is a folder beside `sqlite/`.
"""
