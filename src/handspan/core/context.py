"""What one call may touch. Made for each call; tools keep no state of a session."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from handspan.core.artifacts import Artifacts
from handspan.core.deadlines import Deadline
from handspan.core.principals import Principal
from handspan.core.values import Json

Progress: TypeAlias = Callable[[Json], None]
"""Shows partial output or a state to whoever watches the call. Never blocks, may be called from any thread."""


class ToolContext(Struct, gc=False):
    """What one call may touch."""

    call_id: str
    who: Principal
    session: str
    deadline: Deadline | None
    """When the call will be stopped."""
    progress: Progress
    artifacts: Artifacts
    workspace: Path
    """The folder that file tools work in."""


def no_progress(_: Json) -> None:
    """For calls that nobody watches."""
