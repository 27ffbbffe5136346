"""THE HTTP KIT: what every door for HTTP requests is made of. It knows no door, no tool and no session.

Holds:   `message.py`, the request and the response; `routing.py`, a table of paths and methods, and the envelope in
         which a door answers; `bodies.py`, bodies within their limits; `files.py`, files up and down; `streams.py`,
         answers that come piece by piece; `idempotency.py`, the same request twice; `calls.py`, calls that outlive
         their request; `refusals.py`, the one error type.
Imports: wire, core. `refusals.py` is loaded at the start, the others late.
To add:  a door gives a table of `Endpoint` and an `Envelope` to `Router`: see `rest/door.py` and `graph/door.py`.
"""
