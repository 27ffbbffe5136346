"""THE PYTHON SDK: a program's tools for the gateway's agents, and conversations with them, over WebSocket.

Holds:   `Client` (offers tools, comes back after every drop), `Chat` (says things, hears events), the seed's builder.
         `peer.py` and `talk.py` are the protocol's client side without a socket. `ws.py` is the link that comes back,
         `socket.py` one connection of it, both without words. `connection.py` is where all of them meet.
Imports: wire, core. `websockets` loads with the first connection, so that importing this is fast.
To add:  a frame's meaning in `peer.py` (calls) or `talk.py` (conversation), with a case in `protocol/vectors/`.
"""

from handspan.client.chat import Chat
from handspan.client.client import Client
from handspan.client.context import CallContext
from handspan.client.faults import GatewayRefused, GatewayUnreachable, MessageTooLarge
from handspan.client.results import Image, ToolCallRequest, ToolCallResult
from handspan.client.ws import Backoff

__all__ = [
    "Backoff",
    "CallContext",
    "Chat",
    "Client",
    "GatewayRefused",
    "GatewayUnreachable",
    "Image",
    "MessageTooLarge",
    "ToolCallRequest",
    "ToolCallResult",
]
