"""COMMANDS: what a person types.

Holds:   one file a command; `main.py` has the table of their names, each is loaded when it is used.
Imports: gateway, agent, engine, client, skills, registry, models, wire, config, core. A command imports a heavy
         module only if it needs it.
To add:  a file with a click command, and its line in the table of `main.py`.
"""
