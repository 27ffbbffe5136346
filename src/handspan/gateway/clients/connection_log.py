"""Lines of the log about clients: they connect, offer tools, disconnect."""

import logging

from handspan.gateway.clients.peer import Peer
from handspan.gateway.clients.peers import NORMAL_CLOSES
from handspan.wire.ws_frames import ToolsRegistered

_log = logging.getLogger(__name__)


def log_arrival(peer: Peer, notice: str, *, is_back: bool) -> None:
    """Log that a client has connected, or has come back, and why a device has another label than it asked for."""
    if notice:
        _log.warning("%s: %s", _name(peer), notice, extra=_about(peer, "connected"))
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s %s", _name(peer), "is back" if is_back else "connected", extra=_about(peer, "connected"))


def log_departure(peer: Peer, code: int) -> None:
    """Log that a client's connection is gone, with its close code."""
    if _log.isEnabledFor(logging.INFO):
        waits = "" if peer.grace is None or code in NORMAL_CLOSES else ", and may come back"
        _log.info("%s disconnected (%d)%s", _name(peer), code, waits, extra=_about(peer, "disconnected"))


def log_offer(peer: Peer, registered: ToolsRegistered) -> None:
    """Log how many tools a client offers, and which of them were refused, and why."""
    if _log.isEnabledFor(logging.INFO):
        tools = "1 tool" if registered.registered == 1 else f"{registered.registered} tools"
        _log.info("%s offers %s", _name(peer), tools, extra=_about(peer, "tools"))
    for one in registered.rejected:
        _log.warning("%s: its tool %r was refused: %s", _name(peer), one.name, one.reason, extra=_about(peer, "tools"))


def _name(peer: Peer) -> str:
    return f"device {peer.label}" if peer.role == "device" else f"chat in {peer.session}"


def _about(peer: Peer, event: str) -> dict[str, str]:
    return {"event": event, "role": peer.role, "label": peer.label, "session": peer.session, "owner": peer.who.owner}
