"""THE HTTP DOOR: what programs and the page read and change, as JSON.

Holds:   `route.py`, how a route is declared; one file a family of routes; `routes.py`, all of them together.
Imports: everything below the gateway, and `Doors`, which names what the routes need.
To add:  a function with typed `query`, `body` and answer under `family.get(…)` or its like; decoding, refusals and the
         OpenAPI document follow from that. A new family: its file, and its line in `routes.py`.
"""
