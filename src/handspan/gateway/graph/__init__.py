"""THE BROWSER'S DOOR: runs whose tools are in the client that sends the request, as `protocol/graph.md` says.

Holds:   `door.py` with the table of routes (read it first); `request.py`, a request and what its route may use;
         `envelope.py`, the form of answers. `runs.py` translates runs of the kit (`gateway/runs/`); `listener.py` turns
         their events into messages; `chunks.py` makes a stream of them; `renderer.py` writes messages, `requests.py`
         reads them; `socket.py` is the WebSocket. One file a family of routes.
Imports: gateway.clients, gateway.entry, gateway.http, gateway.parts, gateway.paths, gateway.runs, agent, sources,
         registry, wire, core.
To add:  a clause in graph.md first; then its body in `wire/graph/`, and a function in the table of `door.py`.
"""
