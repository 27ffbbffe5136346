"""The hook `audit_log`: the begin and the end of every call, as lines of JSON in a file of its own (SPEC E7, S6).

It runs only where the settings name it. The journal has every call in any case: see `core/store.py`, `Ledger`.
"""

import time
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from handspan.config.rotated_file import RotatedFile
from handspan.core.results import Failure, ToolResult
from handspan.core.values import Json, encode
from handspan.engine.hooks import BeforeVerdict, HookedCall


class AuditLogConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The `config` of `audit_log`."""

    arguments: bool = False
    """Write the arguments too. They may be private."""
    file: str = "audit.jsonl"
    """The file; a relative path is below the state folder."""
    max_bytes: Annotated[int, Meta(ge=1024, description="a whole number of bytes from 1024 on")] = 10_000_000
    """A line that would make the file larger begins a new one; the full one becomes `FILE.1`."""
    backups: Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")] = 5
    """How many full files are kept: `FILE.1` is the newest."""


class AuditLog:
    """Writes every call with its tool, owner, agent and session, and then its outcome.

    A line that can't be written fails the hook, so the call is refused: no call runs unseen. A call without a line for
    its end was refused later, or waits; the journal has its outcome.
    """

    def __init__(self, config: AuditLogConfig, state: Path) -> None:
        """`state` is the state folder."""
        self._config = config
        self._file = RotatedFile(state / config.file, config.max_bytes, config.backups)

    async def before(self, call: HookedCall) -> BeforeVerdict:
        """Write that the call begins, or that a hook or a person has changed it."""
        more: dict[str, Json] = {"arguments": dict(call.arguments)} if self._config.arguments else {}
        self._write("change" if call.is_changed else "call", call, more)
        return None

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        """Write how the call ended."""
        self._write("result", call, {"status": result.code if isinstance(result, Failure) else "success"})

    def _write(self, event: str, call: HookedCall, more: dict[str, Json]) -> None:
        about = {"id": call.id, "tool": call.name, "owner": call.owner, "agent": call.agent, "session": call.session}
        self._file.add(encode({"at": time.time(), "event": event, **about, **more}) + b"\n")
