"""`handspan push` as a person runs it, at a real gateway: the browsers that get notifications (SPEC J4)."""

import json

import httpx2
import pytest

from tests.cli.gateways import address, serving, token
from tests.cli.shell import Shell
from tests.gateway.push_service import Browser

pytestmark = pytest.mark.outside


def test_browsers_are_listed_without_their_endpoint_and_removed(run: Shell) -> None:
    browser = Browser("https://push.example.com")
    with serving(run):
        assert json.loads(run("push", "--json").stdout) == []
        headers = {"authorization": f"Bearer {token(run)}"}
        made = httpx2.post(f"{address(run)}/api/push", json=browser.json, headers=headers, timeout=60)
        [row] = json.loads(run("push", "--json").stdout)
        assert (row["id"], row["label"], row["host"], row["last_success"]) == (
            made.json()["id"],
            "phone",
            "push.example.com",
            None,
        )
        shown = run("push").stdout
        assert "phone" in shown and "never" in shown and browser.endpoint not in shown
        removed = run("push", "remove", row["id"])
        assert (removed.returncode, removed.stdout) == (0, "It gets no more notifications.\n")
        again = run("push", "remove", row["id"])
        assert again.returncode == 1 and "There is no subscription" in again.stderr
