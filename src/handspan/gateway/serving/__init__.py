"""THE PORT: sockets, TLS, and the bounds that hold before any door gets a request.

Holds:   `server.py`, a gateway on a port, from its first socket to its ordered stop; `stopping.py`, the signals that
         ask for it; `listening.py`, the bound sockets and their addresses; `http_protocol.py`, one connection, with
         `request_heads.py`, what a head may hold, and `refusing.py`, what no door refuses; `idle_connections.py` and
         `reading_turns.py`, the bounds on clients without a token; `tls_listener.py`, handshakes;
         `lan_certificates.py`, certificates of our own; `protocol_config.py`, what uvicorn's connections need of
         uvicorn.
Imports: gateway.entry, gateway.http, config, core.
To add:  a bound on connections is a class that `Server` makes and `HttpProtocol` asks. What concerns a request that is
         let in belongs to `entry/`.
"""
