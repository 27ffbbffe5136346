"""THE CONVERSATION: an agent that talks to a model and uses tools, as a function of what is stored.

Holds:   the loop (read `loop.py` first), the session it works on, the events that fronts show, the limits that end it.
Imports: engine, sources, registry, tools, models, store and everything below.
To add:  a new event goes into `events.py`, a new way to end into `limits.py`.
"""
