"""`handspan reload`: let the gateway that runs take the settings as they are now (SPEC U4)."""

import click

from handspan.cli.door import gateway_options
from handspan.cli.operator import as_operator
from handspan.cli.options import json_option
from handspan.cli.render import print_done
from handspan.config.listing import shorten_keys
from handspan.wire.rest.status import ReloadedSettings


@click.command("reload")
@json_option
@gateway_options
def command() -> None:
    """Let the gateway that runs take the settings as they are now: agents, models, tools, limits, hooks, MCP servers.

    It says what has changed, and what needs a restart. Calls that run go on. SIGHUP does the same.
    """
    with as_operator() as remote:
        done = remote.change("POST", "/api/settings/reload", ReloadedSettings)
    applied, later = ", ".join(shorten_keys(done.applied)), ", ".join(shorten_keys(done.needs_restart))
    lines = [f"in force now: {applied}"] if applied else []
    lines += [f"restart the gateway to apply: {later}"] if later else []
    lines = lines or ["nothing has changed"]
    print_done(done, "\n".join([*lines, *([f"the model that answers now: {done.model}"] if done.model else [])]))
