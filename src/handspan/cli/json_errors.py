"""Errors as `--json` prints them: `{"error", "code"}`, the form that REST has. Loaded when there is an error."""

import click
import msgspec

from handspan.cli.requests import RemoteRefused
from handspan.client.errors import GatewayRefused, GatewayUnreachable
from handspan.core.errors import ConfigError, HandspanError, ToolError
from handspan.core.values import escape_invisible


def render_error(error: HandspanError | click.ClickException) -> str:
    """Return the error on one line."""
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    return escape_invisible(msgspec.json.encode({"error": text, "code": _code_of(error)}).decode())


def _code_of(error: HandspanError | click.ClickException) -> str:
    """Return the code of this error, as REST names it."""
    match error:
        case click.ClickException():
            return "usage"
        case RemoteRefused() | ToolError():
            return error.code
        case ConfigError():
            return "settings"
        case GatewayUnreachable() | GatewayRefused():
            return "gateway"
        case _:
            return "error"
