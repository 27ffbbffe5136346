"""THE PYTHON SDK: a program's tools for the gateway's agents, and conversations with them, over WebSocket.

Holds:   `client.py` (`Client`: offers tools) and `chat.py` (`Chat`: sends messages, gets events); read these first.
         `builder.py` is the seed's form of `Client`. `client_state.py` (the link), `call_state.py` (calls) and
         `chat_state.py` (turns) are the client's side of the protocol, without a socket: frames in, `actions.py` out.
         `connection.py` carries the actions out, in their order (`steps.py`): with `ws.py` (the link, which opens again
         after a drop; `socket.py` is one connection of it), `calls.py` (runs the code of tools, on the loop or on
         threads) and `results.py` (what code may return).
         `fast_socket.py` is a speed trick. `pairing.py` gets a token for a pairing link.
         `tools.py` and `functions.py` make tools of functions and specs. `memory.py` has the calls that must not run
         twice, and the state file.
Imports: wire, core. `websockets` loads with the first connection, so that importing this is fast.
To add:  a frame's meaning in one of these three states, with a case in `protocol/vectors/`.
"""

from handspan.client.calls import LoginRequest, PermissionQuestion
from handspan.client.chat import Chat
from handspan.client.client import Client
from handspan.client.context import CallContext
from handspan.client.errors import GatewayRefused, GatewayUnreachable, LoginRequired, MessageTooLarge
from handspan.client.pairing import PairedGateway, pair
from handspan.client.results import Image, ToolCallRequest, ToolCallResult
from handspan.client.ws import Backoff
from handspan.core.tool import READ_ONLY, Annotations, ToolSpec
from handspan.wire.ws_chat_frames import ChannelMessage

__all__ = [
    "READ_ONLY",
    "Annotations",
    "Backoff",
    "CallContext",
    "ChannelMessage",
    "Chat",
    "Client",
    "GatewayRefused",
    "GatewayUnreachable",
    "Image",
    "LoginRequest",
    "LoginRequired",
    "MessageTooLarge",
    "PairedGateway",
    "PermissionQuestion",
    "ToolCallRequest",
    "ToolCallResult",
    "ToolSpec",
    "pair",
]
