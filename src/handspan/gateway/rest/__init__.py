"""THE REST DOOR: what programs and the page read and change, as JSON.

Holds:   `door.py` with the table of families (read it first); `route.py`, how a route is declared; `state.py`, what the
         door has beside the parts of the gateway; `errors.py`, the form of refusals and their words
         about a field; `openapi.py`, the document. One file a family of routes: `calling.py` runs a tool
         (`call_events.py`: its stream), `calls.py` has the journal, `pairing.py` gives access, `observe.py` has live
         updates and metrics, `doctor.py` has what works here and what does not.
         The types are in `wire/rest/`.
Imports: gateway.app, gateway.channels, gateway.clients, gateway.entry, gateway.http, gateway.live, gateway.metrics,
         gateway.parts, gateway.paths, gateway.serving, agent, engine, sources, channels, skills, registry, tools,
         models, wire, config, core.
To add:  a function with typed `query`, `body` and answer under `family.get(…)` or its like; decoding, refusals and the
         OpenAPI document follow from that. A new family: its file, and its line in the table of `door.py`.
"""
