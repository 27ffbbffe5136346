"""NOUNS. What a tool, a call and a result are, and the words for every way a call can fail.

Holds:   plain data (frozen structs), the Protocols that the rooms above share, and the pure functions on them.
Imports: nothing of ours. No I/O, no clock, no event loop.
To add:  one file a noun; its name is the word that a newcomer would search for.
"""
