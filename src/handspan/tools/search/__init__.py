"""FIND AND SEARCH: files of the workspace by name (`find.py`) and by what they hold (`search.py`).

Holds:   below both tools: `walk.py` (all files below a folder), `ignored.py` (rules of `.gitignore`), `globs.py`.
Imports: core, and tools outside of this folder. `google-re2` is loaded by `matcher.py` alone, with the first search.
To add:  a tool that reads many files uses `walk.py`, and runs as `BackgroundWork` does: cancelled between two files.
"""
