"""The gateway that runs, for commands that only its operator may use."""

import contextlib
from collections.abc import Iterator

from handspan.cli.door import named_gateway, running_gateway, say_aside
from handspan.cli.options import is_json, read_place
from handspan.cli.remote import OPERATOR_NEEDS_NONE, Remote
from handspan.cli.requests import RemoteRefused
from handspan.core.errors import ConfigError
from handspan.gateway.entry.auth import ADMIN


@contextlib.contextmanager
def as_operator() -> Iterator[Remote]:
    """Yield the gateway that runs, for a block that needs `admin`. Standard error names it, unless --json is given."""
    settings = read_place()
    remote = named_gateway() or running_gateway(settings)
    if remote is None:
        raise ConfigError(
            f"No gateway serves the state folder {str(settings.state)!r}: start one with `handspan serve`, or name one "
            "with --url and --token."
        )
    if not is_json():
        say_aside(f"(gateway {remote.url})")
    try:
        yield remote
    except RemoteRefused as refused:
        raise RemoteRefused(refused.status, _explain(refused), refused.code) from None
    finally:
        remote.close()


def _explain(refused: RemoteRefused) -> str:
    """Return the refusal in words for the person who typed a command: about scopes the gateway speaks to programs."""
    if refused.status == 403 and repr(ADMIN) in str(refused):
        return (
            f"Only the operator may do this, and this token is not the operator's: it lacks the scope {ADMIN!r}. "
            f"Give one that has it. {OPERATOR_NEEDS_NONE}"
        )
    return str(refused)
