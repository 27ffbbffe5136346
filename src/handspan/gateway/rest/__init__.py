"""THE REST DOOR: what programs and the page read and change, as JSON.

Holds:   `door.py`, which opens it, with the table of its modules; `route.py`, how a route is declared; one file a
         family of routes; `errors.py`, its envelope for refusals. The types are in `wire/rest/`.
Imports: gateway.app, gateway.clients, gateway.entry, gateway.http, gateway.listening, gateway.live, gateway.metrics,
         gateway.paths, gateway.parts, gateway.sessions, agent, engine, skills, registry, tools, models, wire,
         config, core. `Doors` names what the routes need of them.
To add:  a function with typed `query`, `body` and answer under `family.get(…)` or its like; decoding, refusals and the
         OpenAPI document follow from that. A new family: its file, and its lines in the tables of `door.py`.
"""
