"""`handspan reload`: let the gateway that runs take the settings as they are now (SPEC U4)."""

from collections.abc import Iterator, Sequence

import click

from handspan.cli.door import gateway_options
from handspan.cli.operator import as_operator
from handspan.cli.options import json_option
from handspan.cli.render import print_json
from handspan.config.listing import shorten_keys
from handspan.wire.rest.status import ReloadedSettings


@click.command("reload")
@json_option
@gateway_options
def command(as_json: bool) -> None:
    """Let the gateway that runs take the settings as they are now: agents, models, tools, limits, hooks, MCP servers.

    It says what has changed, and what needs a restart. Calls that run go on. SIGHUP does the same.
    """
    with as_operator(says=not as_json) as remote:
        done = remote.change("POST", "/api/settings/reload", ReloadedSettings)
    if as_json:
        print_json(done)
    else:
        for line in describe_reload(done.applied, done.needs_restart):
            click.echo(line)
        if done.model:
            click.echo(f"the model that answers now: {done.model}")


def describe_reload(applied: Sequence[str], needs_restart: Sequence[str]) -> Iterator[str]:
    """Yield what a reload of the settings did, a line each."""
    if applied:
        yield f"in force now: {', '.join(shorten_keys(applied))}"
    if needs_restart:
        yield f"restart the gateway to apply: {', '.join(shorten_keys(needs_restart))}"
    if not applied and not needs_restart:
        yield "nothing has changed"
