"""WHO HAS WHAT: the one place where tools are kept, and each session's view of them.

Holds:   the registry (scopes, origins, reserved names), the definitions that a person agreed to (`pins.py`), each
         agent's selection, toolboxes, and the answer to "why can't I use this?" (`reasons.py`).
Imports: core.
To add:  a rule about who may see a tool goes into `selection.py`, one about who may bring it into `registry.py`.
"""
