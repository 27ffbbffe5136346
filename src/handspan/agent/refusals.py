"""Why a turn is not begun, in the codes of ws.md 9.1. A turn that has begun ends with an event instead."""

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
    """Nothing was begun and nothing was kept; the message says why, and what to do."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        super().__init__(message)
        self.code: RefusalCode = code


class SessionBusy(TurnRefused):
    """Too many want to say something in this session, or it waits for somebody."""

    def __init__(self, message: str) -> None:
        super().__init__("SESSION_BUSY", message)


class GatewayStops(SessionBusy):
    """No turn is begun any more."""

    def __init__(self) -> None:
        super().__init__("The gateway is being stopped and begins no new turns: say it again in a moment.")


class SessionRefused(TurnRefused):
    """This session can't be had: it is somebody else's, can't be kept, or its agent is not there."""


class NoUserMessage(TurnRefused):
    """There is nothing to answer again."""

    def __init__(self) -> None:
        super().__init__("NO_USER_MESSAGE", "Nobody has said anything in this session yet: say something first.")


class IdTaken(TurnRefused):
    """Something else was said under this id."""

    def __init__(self, message_id: str) -> None:
        text = f"Another message of this session has the id {message_id!r}: give each one an id of its own."
        super().__init__("INVALID_FRAME", text)
