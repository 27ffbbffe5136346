"""THE AI SDK'S DOOR: our agents for `useChat` and all that speaks the UI message stream of Vercel's AI SDK (SPEC F5).

Holds:   `door.py` with the table of routes (read it first); `request.py` reads a request; `approvals.py` answers the
         questions whose answers it brings; `running.py` runs it and writes its stream; `teller.py` turns what is stored
         of an answer (`stored.py`) and its client lacks (`seen.py`), and then each event, into parts of a message;
         `writer.py` writes the chunks in an order that every client takes.
Imports: gateway.http, gateway.parts, gateway.runs, agent, sources, net, wire, core. No rules of its own: runs and
         chats are those of `gateway/runs/`.
To add:  a chunk in `wire/ui_stream.py`, what leads to it in `teller.py`.
"""
