"""The first stations: the tool that a call names, and its arguments, parsed and valid (SPEC E1)."""

from handspan.core.errors import ToolError, WireError
from handspan.core.values import Arguments
from handspan.engine.caller import Caller
from handspan.registry.entry import Entry
from handspan.wire.strict_json import parse


def find(name: str, caller: Caller) -> Entry:
    """The tool of this name that the caller may use; a `ToolError` says why there is none."""
    entry = caller.box.find(name)
    if entry is None:
        raise caller.box.refusal(name)
    return entry


def still(entry: Entry, caller: Caller) -> Entry:
    """The tool that a person agreed to, as it is now: it may have gone, or changed, while they thought."""
    now = find(entry.spec.name, caller)
    if now is entry or (_identity(now) == _identity(entry)):
        return now
    text = f"Tool {entry.spec.name!r} changed while a person was asked about this call, so it did not run: call again."
    raise ToolError("tool_not_available", text)


def _identity(entry: Entry) -> tuple[str, str, str]:
    return entry.spec.fingerprint, entry.origin.kind, entry.origin.name


def valid(entry: Entry, raw: Arguments | bytes | str) -> Arguments:
    """The arguments, parsed and valid against the tool's schema."""
    try:
        arguments = parse(raw or b"{}") if isinstance(raw, (bytes, str)) else raw
        if isinstance(arguments, dict):
            if not entry.is_valid(arguments):
                entry.validator.check(arguments)
            return arguments
    except (WireError, ValueError, RecursionError) as error:
        raise ToolError("invalid_arguments", f"The arguments of {entry.spec.name!r} can't be read: {error}.") from None
    raise ToolError("invalid_arguments", f"The arguments of {entry.spec.name!r} must be a JSON object.")
