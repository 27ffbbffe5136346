"""`handspan usage`: what replies used, by model, agent, session or day (SPEC M6, U2)."""

from datetime import UTC, date, datetime, timedelta

import click

from handspan.cli.door import fetch, request_options
from handspan.cli.options import completes
from handspan.cli.render import print_as_json, render_budgets, render_usage
from handspan.wire.rest.budgets import BudgetList
from handspan.wire.rest.calls import UsageList


def _day(_: click.Context, __: click.Parameter, given: str) -> str:
    """Return the day as the gateway reads it. Raises `BadParameter` for what is no day."""
    today = datetime.now(UTC).date()
    named = {"": "", "today": str(today), "yesterday": str(today - timedelta(days=1))}
    try:
        return named[given] if given in named else str(date.fromisoformat(given))
    except ValueError:
        raise click.BadParameter(f"{given!r} is no day: say today, yesterday, or a date such as {today}.") from None


@click.command("usage")
@click.option(
    "--by",
    type=click.Choice(["model", "agent", "session", "day"]),
    default="model",
    show_default=True,
    help="One line for each.",
)
@click.option("--session", default="", shell_complete=completes("sessions"), help="Only this session.")
@click.option("--since", default="", callback=_day, help="Only since this day (UTC): today, yesterday, or 2026-01-31.")
@request_options
def command(by: str, session: str, since: str) -> None:
    """Print replies, tokens and cost. A count that the model did not report is unknown, never 0."""
    found = fetch("/api/usage", UsageList, by=by, session=session, since=since)
    limits = fetch("/api/budgets", BudgetList)
    if print_as_json({"by": found.by, "usage": found.usage, "budgets": limits.budgets}):
        return
    budgets = render_budgets(limits)
    click.echo("\n".join([*render_usage(found.usage), *(["", "Budgets:", *budgets] if budgets else [])]))
