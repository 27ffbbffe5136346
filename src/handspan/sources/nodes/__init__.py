"""TOOLS OF OTHER NODES: clients that are connected to another node, used like clients of this node (SPEC K2, K3).

Holds:   `messages.py`, what nodes say to each other about clients; `relay.py`, the side of the node that has the
         client's connection; `mirror.py` and `mirrors.py`, the side of all others; `probes.py`, which notices what was
         lost; `hosted.py` and `server_link.py`, the two sides of an MCP server that one node runs for all.
Imports: registry, wire, core.
To add:  a new frame between client and gateway needs nothing here, unless its answer has to go back to another node:
         then `relay.py` notes the node that sent the frame.
"""
