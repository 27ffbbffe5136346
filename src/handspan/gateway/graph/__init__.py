"""THE BROWSER'S DOOR: runs whose tools live where the request came from, as `protocol/graph.md` says.

Holds:   `door.py`, which opens it, with the table of its routes; `envelope.py`, the form of its answers; `runs.py`,
         which begins a run, suspends it and goes on with it; `following.py`, what a request hears of it, and
         `chunks.py`, that as a stream; `shown.py`, conversations in the words of the wire; one file a family of routes.
Imports: gateway.clients, gateway.entry, gateway.http, gateway.live, gateway.paths, gateway.parts, agent,
         engine, sources, registry, wire, core. `wire/graph` has the bodies.
To add:  a clause in graph.md first; then its body in `wire/graph_*.py`, and a function under its route.
"""
