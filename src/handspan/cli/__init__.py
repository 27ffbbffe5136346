"""COMMANDS: what a person types.

Holds:   one file a command; `main.py` has the table of their names, each is loaded when it is used.
Imports: everything below; a heavy module only in the command that needs it.
To add:  a file with a click command, and its line in the table of `main.py`.
"""
