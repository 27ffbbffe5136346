"""THE WAY OF ONE CALL: from a name and arguments to exactly one result.

Holds:   the engine (read `engine.py` first: one screen, top to bottom), and each station of the way in a file of
         its own: finding, policy, asking a person, hooks, gates (limits), drive (deadline), threads, workers, cut,
         ledger.
Imports: registry, wire, config, core. Not sources: tools reach it through the registry.
To add:  a station goes into the order of SPEC E1, in `engine.py`, and nowhere else.
"""
