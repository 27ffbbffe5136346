"""SESSIONS, as the gateway needs them: what waits for a person or a client, across turns and restarts.

Holds:   `questions.py`, questions that are stored and waited for; `answered_calls.py`, calls that go on when a question
         is answered, or that have expired. The sessions themselves are in `agent/`.
Imports: agent, engine, core. No sockets and no HTTP.
To add:  what every front needs of a turn goes into `agent/session.py`; what one front needs belongs to that front.
"""
