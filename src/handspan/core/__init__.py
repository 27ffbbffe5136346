"""NOUNS: what a tool, a call and a result are, and the code of every way a call can fail.

Holds:   plain data (frozen structs), the Protocols that the rooms above share, and the pure functions on them. Read
         `tool.py`, `calls.py` and `results.py` first; `errors.py` has every error and its code. What lasts:
         `store.py` (Protocols), `records.py` (their data). What is announced: `bus.py`, `events.py`. Schemas:
         `schema.py` checks values, `signature.py` and `function_tool.py` make tools of functions. `tasks.py`:
         background tasks that end well, and work that is done to its end though its caller is cancelled.
         `threads.py`: threads for code that blocks. `words.py`: the words by which texts are searched.
         `bounded.py`: a dict that forgets its oldest entry. `late_imports.py`: heavy libraries, each
         loaded with its first use.
Imports: nothing of ours. No I/O, no clock.
To add:  one file a noun; its name is the word that a newcomer would search for.
"""
