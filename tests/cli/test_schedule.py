"""`handspan schedule`: made, listed, shown, paused, resumed, run and removed (SPEC J1)."""

import json

from tests.cli.shell import Shell


def test_a_schedule_is_made_shown_paused_resumed_and_removed(run: Shell) -> None:
    made = run("schedule", "add", "30 7 * * 1-5", "What is new?", "--zone", "Europe/Berlin", "--name", "News")
    assert made.returncode == 0 and made.stdout.count("07:30 (Europe/Berlin)") == 3, made.stderr
    [listed] = json.loads(run("schedule", "list", "--json").stdout)
    name = listed["id"]
    assert (listed["name"], listed["text"], listed["deliver"]) == ("News", "What is new?", "page")
    assert "cron 30 7 * * 1-5 (Europe/Berlin)" in run("schedule").stdout
    assert "is paused" in run("schedule", "pause", name).stdout
    assert "Paused: You paused it." in run("schedule", "show", name).stdout
    assert "runs again" in run("schedule", "resume", name).stdout
    assert "is due now" in run("schedule", "run", name).stdout
    assert f"{name} is removed" in run("schedule", "remove", name).stdout
    gone = run("schedule", "show", name)
    assert gone.returncode == 1 and "There is no schedule" in gone.stderr


def test_what_is_no_time_is_refused_with_what_can_be_written(run: Shell) -> None:
    for words in ("0 0 7 * * *", "every now and then", "in 0m"):
        refused = run("schedule", "add", words, "Look.")
        assert refused.returncode == 1 and "every 30m" in refused.stderr
