"""What the gateway does at each event of the bus: clients and pages learn of it, and the metrics count it."""

from handspan.core.bus import (
    CallCompleted,
    DeviceChanged,
    LoginRequested,
    QuestionEnded,
    QuestionOpened,
    TokenRevoked,
    ToolsChanged,
    TurnEvent,
)
from handspan.core.events import CallStarted, Ended, RoundBegan, Titled, UsageCounted
from handspan.gateway.clients.ws import WebSocketDoor
from handspan.gateway.parts import GatewayParts


class GatewayEvents:
    """Listens for events, of this node and of others."""

    def __init__(self, parts: GatewayParts, ws: WebSocketDoor) -> None:
        self._parts = parts
        self._ws = ws

    def open(self) -> None:
        """Begin to listen. The listeners run before `publish` returns."""
        listen, live, peers = self._parts.bus.subscribe, self._parts.live, self._parts.peers
        listen(CallCompleted, self._on_call_completed)
        listen(TurnEvent, self._on_turn_event)
        listen(QuestionOpened, lambda event: self._show_question(event.owner, event.question.id, is_open=True))
        listen(QuestionEnded, lambda event: self._show_question(event.owner, event.id, is_open=False))
        listen(ToolsChanged, lambda event: live.publish(event.owner, "tools", {}))
        listen(DeviceChanged, lambda event: live.publish(event.owner, "devices", {}))
        listen(LoginRequested, lambda event: peers.start_login(event.owner, event.call_id, event.question))
        listen(TokenRevoked, lambda event: peers.revoke(event.token))
        listen(TokenRevoked, lambda event: live.drop(event.token))
        listen(TokenRevoked, lambda event: self._ws.revoke(event.token))
        self._parts.messages.open()
        self._watch_gauges()

    def _on_call_completed(self, call: CallCompleted) -> None:
        """Count the call, and acknowledge its stored result: only now its device may forget the result (ws.md 5.3)."""
        if not self._parts.bus.is_remote:
            self._acknowledge(call)
            self._parts.metrics.count_call(call)
            if call.tool.answered_by == "request" and call.status == "timeout":
                self._parts.resumable.end_expired(call.id)
        if self._parts.live:
            self._parts.live.publish(call.owner, "calls", {"id": call.id, "tool": call.name, "session": call.session})

    def _acknowledge(self, call: CallCompleted) -> None:
        """Tell the client of the call that its result is stored."""
        client = "" if call.tool.origin is None else call.tool.origin.connection
        peer = self._parts.peers.find(client) if client else None
        if peer is not None:
            peer.calls.acknowledge_stored(call.id)
        else:
            self._parts.nodes.acknowledge(client, call.id)

    def _on_turn_event(self, published: TurnEvent) -> None:
        owner, session, is_here = published.owner, published.session, not self._parts.bus.is_remote
        match published.event:
            case Ended(reason=reason):
                if is_here:
                    self._parts.metrics.turns.add(reason)
                self._parts.live.publish(owner, "sessions", {"id": session, "state": "idle"})
            case RoundBegan(number=1):
                self._parts.live.publish(owner, "sessions", {"id": session, "state": "running"})
            case Titled(title=title):
                self._parts.live.publish(owner, "sessions", {"id": session, "name": title})
            case CallStarted(id=call_id, name=name):
                self._parts.live.publish(owner, "calls", {"id": call_id, "tool": name, "session": session})
            case UsageCounted(usage=usage) if is_here:
                self._parts.metrics.count_usage(usage)

    def _show_question(self, owner: str, question_id: str, *, is_open: bool) -> None:
        self._parts.live.publish(owner, "questions", {"id": question_id, "open": is_open})

    def _watch_gauges(self) -> None:
        """Add the values that are looked up when the metrics are read."""
        watch, peers = self._parts.metrics.watch, self._parts.peers
        watch("handspan_connections", "Open WebSocket connections.", lambda: float(len(self._ws.connections)))
        watch("handspan_clients", "Clients that are there, or may come back.", lambda: float(len(peers)))
        watch("handspan_devices", "Devices that are there, or may come back.", self._count_devices)
        watch("handspan_open_calls", "Calls that clients have not answered yet.", self._count_open_calls)

    def _count_devices(self) -> float:
        return float(sum(peer.role == "device" for peer in self._parts.peers))

    def _count_open_calls(self) -> float:
        return float(sum(len(peer.calls.open) for peer in self._parts.peers))
