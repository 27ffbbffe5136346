"""Messages of agents to the person, on open pages and in clients that show them (ws.md 3.9)."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from handspan.channels.page import EVERY_CLIENT, ShowMessage, show_nowhere
from handspan.core.bus import MessagePosted, MessageShown
from handspan.core.calls import new_call_id
from handspan.core.channels import OutgoingMessage
from handspan.core.nodes import Nodes
from handspan.gateway.clients.peer import Peer
from handspan.gateway.live import Live
from handspan.wire.ws_chat_frames import ChannelMessage

_WAIT_SECONDS: Final = 2.0
"""Seconds that another node may take to say that it has shown a message."""


class ClientMessages:
    """Shows messages to the person, whichever node their pages and clients are connected to."""

    def __init__(
        self, nodes: Nodes, live: Live, peers: Callable[[], Iterable[Peer]], notify: ShowMessage = show_nowhere
    ) -> None:
        """`notify` tells the person of a message that no page or client shows."""
        self._notify = notify
        self._nodes = nodes
        self._bus = nodes.bus
        self._live = live
        self._peers = peers
        self._waiting: dict[str, asyncio.Event] = {}
        self._bus.subscribe(MessagePosted, self._on_posted)
        self._bus.subscribe(MessageShown, self._on_shown)

    async def show(self, message: OutgoingMessage) -> bool:
        """Return whether a page or client shows the message, or a browser gets a notification of it.

        Other nodes are waited for only if no client here shows it.
        """
        message_id, shown = new_call_id(), asyncio.Event()
        about = (message.channel, message.chat_id, message.content, message.session)
        self._waiting[message_id] = shown
        try:
            self._bus.publish(MessagePosted(message.owner, message_id, *about))  # runs the listeners of this node
            if not shown.is_set():
                await self._nodes.pause(_WAIT_SECONDS, shown)
        finally:
            del self._waiting[message_id]
        return shown.is_set() or await self._notify(message)

    def _on_posted(self, posted: MessagePosted) -> None:
        if not self._show_here(posted):
            return
        if self._bus.is_remote:
            self._bus.publish(MessageShown(posted.owner, posted.id))
        else:
            self._waiting[posted.id].set()

    def _on_shown(self, event: MessageShown) -> None:
        shown = self._waiting.get(event.id)
        if shown is not None:
            shown.set()

    def _show_here(self, posted: MessagePosted) -> int:
        """Show a message on the pages and in the clients of this node, and return how many got it."""
        data = {"channel": posted.channel, "chat_id": posted.chat_id, "content": posted.content}
        count = self._live.count(posted.owner)
        self._live.publish(posted.owner, "messages", {**data, "session": posted.session})
        frame = ChannelMessage(posted.channel, posted.chat_id, posted.content)
        for peer in self._peers():
            is_meant = posted.chat_id in (EVERY_CLIENT, peer.session)
            if peer.who.owner == posted.owner and "messages" in peer.can and peer.socket is not None and is_meant:
                peer.send(frame)
                count += 1
        return count
