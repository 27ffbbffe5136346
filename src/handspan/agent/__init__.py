"""THE CONVERSATION: sessions that people talk in, and an agent that answers with a model and tools.

Holds:   `session.py`, what doors can ask of a session (read it first), with its queue and its turns; `sessions.py`, the
         one cache of them; `loading.py`, a conversation with its agent, model and skills; `loop.py`, which advances it
         as a function of what is stored, within `limits.py`; `agents.py`, the agents that there are.
Imports: engine, skills, registry, models, config, core.
To add:  a new request of doors goes into `session.py`, a new event into `core/events.py`, a new way to end into
         `limits.py`.
"""
