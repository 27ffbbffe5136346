"""EVENTS: how they get from one part of the gateway to the others.

Holds:   `memory.py`, the bus inside one process; `nats.py`, the bus between nodes, with `link.py`, its connection, and
         `signing.py` with `senders.py`, which say whose messages count.
Imports: core.
To add:  another bus (between processes, for example) is a file with a class that implements `Bus` of `core/bus.py`; it
         joins the fixture of `tests/bus/`. A new event is a struct in `core/bus.py`, with its owner and plain values.
"""
