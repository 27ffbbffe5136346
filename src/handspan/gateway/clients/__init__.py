"""THE SOCKET DOOR: clients and devices over WebSocket, as `protocol/ws.md` says.

Holds:   `ws.py`, frames in and out (read it first), with `conflicting_clients.py`; `peer.py`, a client across its
         connections; `peers.py`, all of them; `chat.py`, the turns of a client, with `chat_frames.py`; `devices.py`,
         the devices of all owners, with `owned_devices.py`, `device_info.py` and `device_labels.py`;
         `unfinished_calls.py`, calls of an earlier process; `late_results.py`, results that no call waits for;
         `messages.py`, what agents write to the person; `socket.py`, a connection without ASGI, behind the Protocols of
         `transport.py`.
Imports: gateway.entry, gateway.live, gateway.sessions, agent, engine, sources, channels, registry, wire, config, core.
To add:  a frame is declared in `wire/ws_frames.py` and taken in `ws.py` or `chat.py`.
"""
