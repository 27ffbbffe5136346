"""THIS GATEWAY AS ONE OF SEVERAL NODES (SPEC K). Loaded only with the setting `cluster.url`.

Holds:   `cluster.py`, all of it put together; `incoming.py`, what each message of another node means; `events.py`, what
         each event of another node means; `client_rows.py`, the rows by which other nodes know the clients of this one;
         `heartbeat.py`, what a node does twice a second; `draining.py`, how a node that stops hands its work over;
         `turns.py`, sessions whose turn runs on another node; `lost_nodes.py`, which takes over the work of dead nodes;
         `servers.py` and `server_share.py`, MCP servers of which one node runs the program; `forwarding.py` and
         `forwarded.py`, HTTP requests that another node has to answer; `session_ids.py`, how MCP sessions of the older
         era name their node. `sources/nodes/probes.py` notices what was lost between two nodes.
Imports: gateway.app, gateway.clients, gateway.entry, gateway.http, gateway.live, gateway.metrics, gateway.sessions,
         agent, sources, registry, bus, wire, config, core.
To add:  what one node has to tell another goes as an event over the bus, if it may be lost; else it is a row.
"""
