"""THE SOCKET DOOR: clients and devices over WebSocket, as `protocol/ws.md` says.

Holds:   `socket.py`, a connection without ASGI in its way, behind the seam of `line.py`; `ws.py`, frames in and out;
         `chat.py`, the turns of a client; `peers.py`, a client across its connections; `devices.py`, who has been here.
Imports: gateway.entry, gateway.http, gateway.sessions, agent, engine, sources, registry, wire, core.
To add:  a frame is declared in `wire/ws_frames.py` and taken in `ws.py` or `chat.py`.
"""
