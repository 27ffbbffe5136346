"""SESSIONS in the gateway: questions and calls that wait for a person or a client, across turns and restarts.

Holds:   `questions.py`, questions that are stored and waited for; `resumable_calls.py`, calls that go on when their
         question is answered, or that have expired; `brief.py`, sessions that last for one request. The sessions
         themselves are in `agent/`.
Imports: agent, engine, skills, core. No sockets and no HTTP.
To add:  what every client needs of a turn goes into `agent/session.py`; what one door needs belongs to that door.
"""
