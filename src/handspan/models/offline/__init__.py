"""THE OFFLINE STAND-IN: rules instead of a language model, so that a new user sees each kind of tool at work (SPEC M5).

Holds:   `model.py` (reads the conversation, plans the next step, reports the results), `match.py` (which tool a text
         means), `arguments.py` (fills the tool's parameters from the text).
Imports: models, core.
To add:  a synonym in `match.py` for a tool that people call by another word; a kind of parameter in `arguments.py`.
"""

from handspan.models.offline.model import HOW_TO_SET_A_MODEL, STAND_IN, Offline

__all__ = ["HOW_TO_SET_A_MODEL", "STAND_IN", "Offline"]
