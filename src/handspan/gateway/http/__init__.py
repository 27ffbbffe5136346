"""THE HTTP KIT: what every door for HTTP requests is made of. It knows no door, no tool and no session.

Holds:   `routing.py`, a table of paths and methods, and the envelope in which a door answers; `message.py`, a request
         and a response; `bodies.py`, bodies within their limits; `files.py`, uploads and downloads; `streams.py`,
         answers that are sent piece by piece; `idempotency.py`, a request that is sent twice; `calls.py`, calls that
         outlive their request; `refusals.py`, the one error type.
Imports: wire, core. `refusals.py` is loaded at the start, the others late.
To add:  a door gives a table of `Endpoint` and an `Envelope` to `Router`: see `rest/door.py` and `graph/door.py`.
"""
