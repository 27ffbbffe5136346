"""CLIENTS AND DEVICES over WebSocket, as `protocol/ws.md` says. Their door is `gateway/ws.py`, frames in and out.

Holds:   `peer.py`, a client across its connections (read it first); `peers.py`, all of them; `chat.py`, the turns of a
         client, with `chat_frames.py`; `devices.py`, the devices of all owners, with `owned_devices.py` and
         `device_labels.py`; `unfinished_calls.py`, calls of an earlier process; `late_results.py`, results that no call
         waits for; `messages.py`, what agents write to the person; `socket.py`, a connection without ASGI, which
         `transport.py` names without loading it.
Imports: gateway.live, gateway.sessions, agent, engine, sources, channels, registry, wire, config, core.
To add:  a frame is declared in `wire/ws_frames.py` and taken in `gateway/ws.py` or `chat.py`.
"""
