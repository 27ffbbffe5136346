"""Sessions in which an agent works for another one (SPEC J5). Their ids say which call asked for them."""

from typing import Final

ASK_AGENT: Final = "ask_agent"
"""The name of the tool by which an agent asks another one."""
CHILD_SESSION: Final = "child-"
"""The beginning of the id of each child session; the id of the call that asked follows."""
MAX_DEPTH: Final = 3
"""How deep agents can ask: the first asks a second, that one a third, and the third a fourth, which can ask none."""
MAX_AT_ONCE: Final = 5
"""How many agents can work for one session at the same time."""


def child_session(call_id: str) -> str:
    """Return the id of the session in which the agent works that this call asks."""
    return f"{CHILD_SESSION}{call_id}"


def asking_call(session_id: str) -> str:
    """Return the id of the call that asked for this session; empty if it is no child session."""
    return session_id.removeprefix(CHILD_SESSION) if session_id.startswith(CHILD_SESSION) else ""
