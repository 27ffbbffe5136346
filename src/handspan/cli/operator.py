"""The gateway that runs, for commands that only its operator may use."""

import contextlib
from collections.abc import Iterator
from typing import Final

from handspan.cli.door import named_gateway, running_gateway, say_aside
from handspan.cli.options import read_client_settings
from handspan.cli.remote import Remote
from handspan.cli.requests import RemoteRefused
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.gateway.entry.auth import ADMIN
from handspan.gateway.entry.operator_token import read_operator_token

_OR_NONE: Final = (
    "On the computer that the gateway runs on, its operator needs none: leave out --token, --url and the "
    "variables HANDSPAN_TOKEN and HANDSPAN_URL."
)


@contextlib.contextmanager
def as_operator(*, says: bool) -> Iterator[Remote]:
    """Yield the gateway that runs, for a block that needs the scope `admin`. With `says`, standard error names it."""
    settings = read_client_settings()
    remote = named_gateway() or running_gateway(settings)
    if remote is None:
        raise ConfigError(
            f"No gateway serves the state folder {str(settings.state)!r}: start one with `handspan serve`, or name one "
            "with --url and --token."
        )
    if says:
        say_aside(f"(gateway {remote.url})")
    try:
        yield remote
    except RemoteRefused as refused:
        raise RemoteRefused(refused.status, _explain(refused, remote, settings), refused.code) from None
    finally:
        remote.close()


def _explain(refused: RemoteRefused, remote: Remote, settings: Settings) -> str:
    """Return the refusal in words for the person who typed a command: about tokens the gateway speaks to programs."""
    if refused.status == 401 and remote.token == _operator_token(settings):
        return (
            f"The gateway at {remote.url} does not take the operator's token of {str(settings.state)!r} any more: it "
            "was revoked, or is another gateway's. If it was revoked, start the gateway again: it makes a new one."
        )
    if refused.status == 401:
        return (
            f"The gateway at {remote.url} does not know this token: it is wrong, or was revoked. "
            f"Give one with the scope {ADMIN!r}. {_OR_NONE}"
        )
    if refused.status == 403 and repr(ADMIN) in str(refused):
        return (
            f"Only the operator may do this, and this token is not the operator's: it lacks the scope {ADMIN!r}. "
            f"Give one that has it. {_OR_NONE}"
        )
    return str(refused)


def _operator_token(settings: Settings) -> str | None:
    try:
        return read_operator_token(settings.state)
    except ConfigError:  # a token that can't be read was not the one that was sent
        return None
