"""The graph API, with which web pages bring their tools (`protocol/graph.md`).

Holds:   `reading.py` reads the bodies of requests (read it first), with `messages.py`; `requests.py`, `blocks.py` and
         `memories.py` have their types, `answers.py` those of answers;
         `faults.py` says what is wrong with a body, place by place.
Imports: core, wire.
To add:  a clause in `protocol/graph.md`, then its type here; `make docs` writes the JSON Schemas.
"""
