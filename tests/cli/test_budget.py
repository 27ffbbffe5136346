"""`handspan budget`, `handspan usage` and `/budget`: what is spent and left, and money for today (SPEC L5)."""

import json

from tests.cli.shell import Shell

LIMITS = {"HANDSPAN_BUDGET__DAY": "5", "HANDSPAN_BUDGET__MONTH": "60"}


def test_budget_says_what_is_left_and_adds_for_today(run: Shell) -> None:
    assert "There is no budget" in run("budget").stdout
    shown = run("budget", **LIMITS).stdout
    assert "all, a day: $0.00 of $5.00 spent, $5.00 left; whole again on 2" in shown
    assert "all, a month: $0.00 of $60.00 spent" in shown
    added = run("budget", "add", "2.5", **LIMITS).stdout
    assert "$0.00 of $7.50 spent ($5.00 + $2.50 added today), $7.50 left" in added
    listed = json.loads(run("budget", "--json", **LIMITS).stdout)
    assert [one["left"] for one in listed["budgets"]] == [7.5, 62.5]


def test_usage_shows_the_budgets_below_the_sums(run: Shell) -> None:
    assert run("usage", **LIMITS).stdout.splitlines()[:3] == ["nothing yet", "", "Budgets:"]
    assert run("usage").stdout == "nothing yet\n"


def test_usage_as_json_has_the_budgets_too(run: Shell) -> None:
    found = json.loads(run("usage", "--by", "day", "--json", **LIMITS).stdout)
    assert (found["by"], found["usage"]) == ("day", [])
    assert [(one["period"], one["left"]) for one in found["budgets"]] == [("day", 5.0), ("month", 60.0)]
    assert json.loads(run("usage", "--json").stdout) == {"by": "model", "usage": [], "budgets": []}


def test_money_is_added_to_a_budget_that_there_is(run: Shell) -> None:
    missing = run("budget", "add", "1", "--agent", "nobody", **LIMITS)
    assert missing.returncode == 1 and "There is no budget of 'agent:nobody'" in missing.stderr
    assert run("budget", "add", "0", **LIMITS).returncode == 2
    negative = run("budget", "add", "-1", **LIMITS)
    assert negative.returncode == 2 and "-1.0 is not in the range x>0" in negative.stderr
    both = run("budget", "add", "1", "--agent", "a", "--owner", "b", **LIMITS)
    assert both.returncode == 2 and "not both" in both.stderr


def test_a_chat_shows_the_budget_and_adds_to_it(run: Shell) -> None:
    done = run("chat", given="/budget\n/budget 2\n/budget much\n", **LIMITS)
    assert "$5.00 left" in done.stdout + done.stderr
    assert "of $7.00 spent ($5.00 + $2.00 added today), $7.00 left" in done.stdout + done.stderr
    assert "say how much to add today, as /budget 2" in done.stdout + done.stderr
