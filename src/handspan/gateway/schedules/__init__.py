"""Schedules at work: what is due begins a turn, whose answer is delivered (SPEC J1).

Holds:   `scheduler.py` (when), `turns.py` (the turn of a run, and its answer).
Imports: gateway.channels, gateway.sessions, agent, channels, config, core.
To add:  a place for answers: `_finish` in `turns.py`.
"""
