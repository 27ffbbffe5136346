"""THE BROWSER'S DOOR: runs whose tools are in the client that sends the request, as `protocol/graph.md` says.

Holds:   `door.py` with the table of routes (read it first); `parts.py`, what routes may use; `envelope.py`, the form
         of requests and answers. `runs.py` begins, suspends and resumes a run; `listener.py` turns its events into
         messages; `chunks.py` and `lines.py` make a stream of them; `renderer.py` writes messages, `requests.py` reads
         them; `tool_sets.py` has the clients' tools; `socket.py` is the WebSocket. One file a family of routes.
         A call: `GraphTool.run` (`sources/graph.py`) answers `Pending`, the response asks the page to run it, and the
         page's next request brings the result. Tools are in the registry only while a run of their client is at work.
Imports: gateway.clients, gateway.entry, gateway.http, gateway.parts, gateway.paths, agent, engine, sources, registry,
         wire, core.
To add:  a clause in graph.md first; then its body in `wire/graph/`, and a function in the table of `door.py`.
"""
