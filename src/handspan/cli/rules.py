"""`handspan rules`: what a person answered with "always" or "never", listed and taken back (SPEC P5)."""

import click

from handspan.cli.door import RequestGroup, change, fetch
from handspan.cli.options import completes
from handspan.cli.render import print_done, print_list
from handspan.cli.requests import segment
from handspan.wire.rest.questions import ForgottenRules, RuleList


@click.group("rules", cls=RequestGroup)
def command() -> None:
    """List what you answered with "always" or "never": tool, kind, what was asked, the answer."""
    print_list(
        ("tool", "kind", "asks", "answer"),
        fetch("/api/rules", RuleList).rules,
        lambda one: (one.tool, one.kind, one.subject, one.answer),
        "No rule yet: a question answered with always or never makes one.",
    )


@command.command("forget")
@click.argument("tool", shell_complete=completes("rules"))
def forget(tool: str) -> None:
    """Take back every "always" and "never" about TOOL: you are asked again."""
    done = change("DELETE", f"/api/rules/{segment(tool)}", ForgottenRules)
    rules = f"{done.forgotten} rule{'' if done.forgotten == 1 else 's'}"
    print_done(done, f"{rules} about {done.tool} forgotten.")
