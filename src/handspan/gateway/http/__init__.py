"""THE HTTP KIT: what every door for HTTP requests is made of. It knows no door, no tool and no session.

Holds:   `routing.py`, a table of paths and methods, and the envelope in which a door answers; `bodies.py`, bodies
         within their limits; `files.py`, uploads and downloads; `streams.py`, answers that are sent piece by piece;
         `idempotency.py`, the same request twice; `calls.py`, calls that outlive their request; `refusals.py`, the one
         error type.
Imports: wire, core. Also Starlette's requests and responses. `refusals.py` is loaded at the start, the others late.
To add:  a door gives a table of `Endpoint` and an `Envelope` to `Router`: see `rest/door.py` and `graph/door.py`.
"""
