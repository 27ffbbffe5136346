"""PEERS: the same work through other people's projects, each in a virtual environment of its own.

Holds:   `dispatch.py` (one call) and `looping.py` (a round of the agent's loop), which run inside a peer's environment
         with nothing of ours but `slices.py` and the floor (`bench/bare.py`); `run.py`, which makes the environments
         (in .venv-peers) and puts what the peers take beside our figures.
To add:  a function in `dispatch.py` or `looping.py` that drives the peer; its line, and its packages, in `run.py`.
"""
