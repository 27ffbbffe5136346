"""The record of a call, as the engine makes and carries it (SPEC E2, E8)."""

import time
from typing import final

from msgspec import structs

from handspan.core.calls import UNKNOWN_TOOL, CallRecord, ToolCall
from handspan.core.results import ToolResult
from handspan.core.values import Arguments
from handspan.engine.caller import Caller
from handspan.registry.entry import Entry


@final
class CallAtWork(CallRecord, gc=False):
    """The record of a call that this process runs: while the tool is at work, the ledger gives back this very one."""

    early: ToolResult | None = None
    """The outcome that came before the tool said that it would come later."""


def new_record(call: ToolCall, caller: Caller, entry: Entry | None, arguments: Arguments | bytes | str) -> CallAtWork:
    """The record of a call that no ledger knows yet."""
    raw = call.arguments
    return CallAtWork(
        call.id,
        call.name if entry is None else entry.spec.name,
        UNKNOWN_TOOL if entry is None else entry.facts,
        arguments,
        caller.who.owner,
        caller.session,
        caller.agent.name,
        time.time(),
        len(raw) if isinstance(raw, (bytes, str)) else 0,
    )


def unread_record(call: ToolCall, caller: Caller, entry: Entry | None) -> CallAtWork:
    """The record of a call that was refused early; of its arguments enough is kept to see what was wrong with them."""
    raw = call.arguments
    return new_record(call, caller, entry, raw[:4096] if isinstance(raw, (bytes, str)) else raw)


def at_work(found: CallRecord) -> CallAtWork:
    """The record of a call that goes on here, perhaps after another process; one that is from here is its own."""
    return found if isinstance(found, CallAtWork) else CallAtWork(**structs.asdict(found))
