"""On whose behalf calls are made."""

from msgspec import Struct

from handspan.core.agents import Agent
from handspan.core.context import Progress, no_progress
from handspan.core.principals import Principal
from handspan.registry.toolbox import Toolbox


class Caller(Struct, frozen=True):
    """Who calls, through which agent, in which session, with which tools. Made once a session, not once a call."""

    who: Principal
    agent: Agent
    box: Toolbox
    session: str = ""
    progress: Progress = no_progress
