"""What the gateway does at each event of the bus: clients and pages learn of it, and the metrics count it."""

from handspan.core import bus
from handspan.core.events import CallStarted, Compacted, Ended, RoundBegan, Titled, UsageCounted, WentBack
from handspan.gateway.metrics import budget_lines
from handspan.gateway.parts import GatewayParts
from handspan.gateway.ws import WebSocketDoor


class GatewayEvents:
    """Listens for events, of this node and of others."""

    def __init__(self, parts: GatewayParts, ws: WebSocketDoor) -> None:
        self._parts = parts
        self._ws = ws

    def open(self) -> None:
        """Begin to listen. The listeners run before `publish` returns."""
        listen, live, peers = self._parts.bus.subscribe, self._parts.live, self._parts.peers
        listen(bus.CallCompleted, self._on_call_completed)
        listen(bus.TurnEvent, self._on_turn_event)
        listen(bus.QuestionOpened, lambda event: self._show_question(event.owner, event.question.id, is_open=True))
        listen(bus.QuestionEnded, lambda event: self._show_question(event.owner, event.id, is_open=False))
        listen(bus.ToolsChanged, lambda event: live.publish(event.owner, "tools", {}))
        listen(bus.DeviceChanged, lambda event: live.publish(event.owner, "devices", {}))
        listen(bus.ScheduleChanged, lambda event: live.publish(event.owner, "schedules", {"id": event.id}))
        listen(bus.LoginRequested, lambda event: peers.start_login(event.owner, event.call_id, event.question))
        listen(bus.TokenRevoked, lambda event: peers.revoke(event.token))
        listen(bus.TokenRevoked, lambda event: live.drop(event.token))
        listen(bus.TokenRevoked, lambda event: self._ws.revoke(event.token))
        self._watch_gauges()

    def _on_call_completed(self, call: bus.CallCompleted) -> None:
        """Count the call, and acknowledge its stored result: only now its device may forget the result (ws.md 5.3)."""
        parts = self._parts
        if not parts.bus.is_remote:
            self._acknowledge(call)
            parts.metrics.count_call(call)
            if call.status == "timeout" and call.tool.answered_by == "request":
                parts.resumable.end_expired(call.id)
        if parts.live:
            parts.live.publish(call.owner, "calls", {"id": call.id, "tool": call.name, "session": call.session})

    def _acknowledge(self, call: bus.CallCompleted) -> None:
        """Tell the client of the call that its result is stored."""
        origin = call.tool.origin
        client = "" if origin is None else origin.connection
        peer = self._parts.peers.find(client) if client else None
        if peer is not None:
            peer.calls.acknowledge_stored(call.id)
        else:
            self._parts.nodes.acknowledge(client, call.id)

    def _on_turn_event(self, published: bus.TurnEvent) -> None:
        """Tell pages that list sessions and calls what has changed, and count turns of this node."""
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
            case WentBack(length=length):
                self._parts.live.publish(owner, "sessions", {"id": session, "length": length})
            case Compacted(summarized=summarized):
                self._parts.live.publish(owner, "sessions", {"id": session, "summarized": summarized})
            case CallStarted(id=call_id, name=name):
                self._parts.live.publish(owner, "calls", {"id": call_id, "tool": name, "session": session})
            case UsageCounted(usage=usage) if is_here:
                self._parts.metrics.count_usage(usage)

    def _show_question(self, owner: str, question_id: str, *, is_open: bool) -> None:
        self._parts.live.publish(owner, "questions", {"id": question_id, "open": is_open})

    def _watch_gauges(self) -> None:
        """Add the values that are looked up when the metrics are read."""
        watch, peers = self._parts.metrics.watch, self._parts.peers
        watch("handspan_connections", "Open WebSocket connections.", lambda: len(self._ws.connections))
        watch("handspan_clients", "Clients that are there, or may come back.", lambda: len(peers))
        watch(
            "handspan_devices",
            "Devices that are there, or may come back.",
            lambda: sum(peer.role == "device" for peer in peers),
        )
        self._parts.metrics.list_lines(self._budget_lines)
        open_calls = "Calls that clients have not answered yet."
        watch("handspan_open_calls", open_calls, lambda: sum(len(peer.calls.open) for peer in peers))

    async def _budget_lines(self) -> list[str]:
        return budget_lines(await self._parts.app.budgets.for_all())
