"""NAMES -> TOOLS: the one place that holds tools, and each session's view of them.

Holds:   `registry.py` (read it first: scopes, origins), `entry.py` (one registered tool, the tools of a scope),
         `name_rights.py` (whose a name is, and who else wanted it), `pins.py` (definitions that a person agreed to),
         `selection.py` (what an agent may use, and why or why not), `toolbox.py` (what one session may use, and what of
         it a model is sent), `search.py` (an index of tools by words).
Imports: core.
To add:  a rule about which agent may use a tool goes into `selection.py`, one about which source may have a name into
         `name_rights.py`.
"""
