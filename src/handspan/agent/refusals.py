"""Why a turn does not begin, with the codes of ws.md 9.1. A turn that has begun ends with an event instead."""

from typing import Literal, TypeAlias

from handspan.core.errors import HandspanError

RefusalCode: TypeAlias = Literal[
    "SESSION_BUSY",
    "SESSION_OWNER_MISMATCH",
    "SESSION_BIND_FAILED",
    "AGENT_INIT_FAILED",
    "NO_USER_MESSAGE",
    "INVALID_FRAME",
]


class TurnRefused(HandspanError):
    """The turn did not begin and nothing was stored. The message says why, and what to do."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        super().__init__(message)
        self.code: RefusalCode = code


class SessionBusy(TurnRefused):
    """Too many requests wait in this session, or the session waits for the result of a call."""

    def __init__(self, message: str) -> None:
        super().__init__("SESSION_BUSY", message)


class GatewayStops(SessionBusy):
    """The gateway stops, and begins no more turns."""

    def __init__(self) -> None:
        super().__init__("The gateway is being stopped and begins no new turns: say it again in a moment.")


class TurnHandedOver(GatewayStops):
    """This process stops in the middle of a turn, and another one goes on with the turn."""

    def __init__(self) -> None:
        text = "The gateway stops here, and the turn is not over: another node or the next start goes on with it."
        TurnRefused.__init__(self, "SESSION_BUSY", f"{text} Look into the session there.")


class NoTurnsHere(TurnRefused):
    """This node takes devices only."""

    def __init__(self) -> None:
        text = "This node takes devices only (setting cluster.role: edge), and runs no turns."
        super().__init__("SESSION_BUSY", f"{text} Send this to a node with the role agent or all.")


class SessionRefused(TurnRefused):
    """The session can't be used: it belongs to another owner, can't be stored, or its agent is missing."""


class NoUserMessage(TurnRefused):
    """The session has no message to answer again."""

    def __init__(self) -> None:
        super().__init__("NO_USER_MESSAGE", "This session has no message yet: say something first.")


class IdTaken(TurnRefused):
    """Another message of the session has this id."""

    def __init__(self, message_id: str) -> None:
        text = f"Another message of this session has the id {message_id!r}: give each one an id of its own."
        super().__init__("INVALID_FRAME", text)
