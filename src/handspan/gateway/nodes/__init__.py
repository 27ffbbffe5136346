"""THIS GATEWAY AS ONE OF SEVERAL NODES (SPEC K). Loaded only with the setting `cluster.url`, but for `choice.py`.

Holds:   `choice.py`, which asks whether there are several; `cluster.py`, which fills `Nodes` of `core/nodes.py`: all
         that this gateway asks of the others, and what each message of another node means; `events.py`, what each event
         of another node means; `clients_elsewhere.py`, clients of others on this node; `client_rows.py`, the rows by
         which other nodes know the clients of this one; `shared_work.py`, what all nodes count together and do once;
         `heartbeat.py`, what a node does twice a second; `draining.py`, how a node that stops hands its work over;
         `turns.py`, sessions whose turn runs on another node; `lost_nodes.py`, the work of dead nodes; `servers.py` and
         `server_share.py`, MCP servers of which one node runs the program; `forwarding.py` and `forwarded.py`, HTTP
         requests that another node has to answer; `session_ids.py`, how MCP sessions of the older era name their node.
         `sources/nodes/probes.py` notices what was lost between two nodes.
Imports: gateway.clients, gateway.entry, gateway.http, gateway.one_node, gateway.parts, sources, registry, bus, wire,
         config, core.
To add:  what a part of the gateway needs of other nodes is a method of `Nodes`, in both fillings; the suite of both is
         `tests/nodes/test_contract.py`. What one node has to tell another goes as an event over the bus, if it may be
         lost; else it is a row.
"""
