"""PEERS: the same work through other people's projects, each in a virtual environment of its own.

Holds:   `dispatch.py` (one call), `looping.py` (a round of the agent's loop) and `remote.py` (a call to another
         process, `far_end.py`): they run inside a peer's environment with nothing of ours but `slices.py` and the
         floor (`bench/bare.py`); `run.py`, which makes the environments (in .venv-peers) and puts what the peers
         take beside our figures.
To add:  a function in one of these scripts that drives the peer; its line, and its packages, in `run.py`.
"""
