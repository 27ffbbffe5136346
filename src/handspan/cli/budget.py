"""`handspan budget`: how much models may cost, what is left, and money for today (SPEC L5)."""

import click

from handspan.cli.door import RequestCommand, RequestGroup, change, fetch
from handspan.cli.render import print_done, render_budgets
from handspan.wire.rest.budgets import BudgetList


@click.group("budget", cls=RequestGroup)
def command() -> None:
    """Print each budget: what is spent, reserved by requests that run, and left."""
    found = fetch("/api/budgets", BudgetList)
    print_done(found, "\n".join(render_budgets(found) or [NO_BUDGET]))


@command.command("add", cls=RequestCommand, context_settings={"ignore_unknown_options": True})  # "-1" is a number
@click.argument("dollars", type=click.FloatRange(min=0, min_open=True))
@click.option("--agent", default="", help="To the budget of this agent.")
@click.option("--owner", default="", help="To the budget of this owner.")
def add(dollars: float, agent: str, owner: str) -> None:
    """Add DOLLARS to the budget for all, only for today."""
    if agent and owner:
        raise click.UsageError("Name --agent or --owner, not both.")
    of = f"agent:{agent}" if agent else f"owner:{owner}" if owner else ""
    found = change("POST", "/api/budgets/add", BudgetList, {"dollars": dollars, "of": of})
    print_done(found, "\n".join(render_budgets(found)))


NO_BUDGET = "There is no budget: `budget = { day = 5, month = 60 }` in the settings makes one."
