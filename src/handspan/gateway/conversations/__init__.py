"""CONVERSATIONS: one turn at a time in each session, whoever asked for it.

Holds:   `turns.py`, what people do in them; `floor.py`, which lets them run; `rooms.py`, one session's queue and its
         listeners; `conversing.py`, an agent put together for a session; `questions.py` and `answered_calls.py`, turns
         that wait for a person or a device.
Imports: agent and below. No sockets and no HTTP: a front gives `emit`, and hears events.
To add:  what every front needs of a turn goes into `turns.py`; what one front needs belongs to that front.
"""
