"""PEERS: the same call through other people's projects, each in a virtual environment of its own.

Holds:   `dispatch.py`, which runs inside a peer's environment with nothing of ours; `run.py`, which makes the
         environments (in .venv-peers) and puts the peers' ratios beside our figures.
To add:  a way to call `add` in `dispatch.py`, and the packages it needs in `run.py`.
"""
