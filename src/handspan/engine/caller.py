"""On whose behalf calls are made."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from handspan.core.agents import Agent
from handspan.core.context import Progress, no_progress
from handspan.core.principals import Principal
from handspan.core.questions import Question
from handspan.registry.toolbox import Toolbox

Asked: TypeAlias = Callable[[Question], None]
"""Hears that a person is being asked. Never blocks, and can't answer."""


def nobody_told(_: Question) -> None:
    """For callers that nobody watches."""


class Caller(Struct, frozen=True):
    """Who calls, through which agent, in which session, with which tools. Made once a session, not once a call."""

    who: Principal
    agent: Agent
    box: Toolbox
    session: str = ""
    progress: Progress = no_progress
    asked: Asked = nobody_told
    """Hears of every question that a call of this caller puts to a person."""
