"""`handspan rules`: what a person answered with "always" or "never", listed and taken back (SPEC P5)."""

import click

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.options import ListingGroup, completes, json_option
from handspan.cli.render import print_done, print_json, print_rows
from handspan.cli.requests import segment
from handspan.wire.rest.questions import ForgottenRules, RuleList


@click.group("rules", cls=ListingGroup, invoke_without_command=True)
@json_option
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List what you answered with "always" or "never": tool, kind, what was asked, the answer."""
    if ctx.invoked_subcommand is not None:
        return
    found = ask_gateway(lambda requests: requests.get("/api/rules", RuleList), says=not as_json)
    if as_json:
        print_json(found.rules)
    else:
        rows = [(one.tool, one.kind, one.subject, one.answer) for one in found.rules]
        print_rows(
            ("tool", "kind", "asks", "answer"), rows, "No rule yet: a question answered with always or never makes one."
        )


@command.command("forget")
@click.argument("tool", shell_complete=completes("rules"))
@json_option
@place_options
def forget(tool: str, as_json: bool) -> None:
    """Take back every "always" and "never" about TOOL: you are asked again."""
    path = f"/api/rules/{segment(tool)}"
    done = ask_gateway(lambda requests: requests.change("DELETE", path, ForgottenRules), says=not as_json)
    rules = f"{done.forgotten} rule{'' if done.forgotten == 1 else 's'}"
    print_done(done, f"{rules} about {done.tool} forgotten.", as_json=as_json)
