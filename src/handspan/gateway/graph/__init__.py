"""THE BROWSER'S DOOR: runs whose tools live where the request came from, as `protocol/http.md` says.

Holds:   `runs.py`, which begins a run, suspends it and goes on with it; `following.py`, what a request hears of it, and
         `chunks.py`, that as a stream; `shown.py`, conversations in the words of the wire; one file a family of routes;
         `routes.py`, all together.
Imports: agent for sessions, sources for the tools that clients bring, `wire/graph*.py` for the bodies.
To add:  a clause in http.md first; then its body in `wire/graph_*.py`, and a function under its route.
"""
