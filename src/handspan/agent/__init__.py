"""THE CONVERSATION: sessions between people and an agent, which answers with a model and tools.

Holds:   `session.py`, what doors can ask of a session (read it first), with `requests.py`, `queue.py`, `listeners.py`,
         `turn.py` and `turn_events.py`;
         `sessions.py`, the cache of sessions; `opening.py`, their records, agents and models; `unstored.py`, those that
         have no message yet; `conversation.py`, the messages, and `loading.py`, which loads them with skills;
         `loop.py`, which advances a conversation from its stored messages, within `limits.py` and in the order of
         `order.py`; `result_marks.py`, which names the source of a result to the model; `tools_in_use.py`, the tools
         that the model called or found; `stored_turns.py`, a turn's begin and end in the store; `instructions.py`, the
         text of the built-in agent; `agents.py`, all agents; `refusals.py`.
Imports: engine, skills, registry, models, config, core.
To add:  a new request of doors goes into `requests.py` and `session.py`, a new event into `core/events.py`, a new
         way to end into `limits.py`.
"""
