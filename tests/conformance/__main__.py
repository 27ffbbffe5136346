"""`make conformance`: the whole suite against our server and our client, as a table."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tests.conformance.auth import BY_SDK
from tests.conformance.suite import Outcome, client_scenarios, serve, try_client, try_server

_TASKS: Final = "we do not offer the extension for tasks"
UNSUPPORTED: Final[Mapping[str, str]] = {
    "auth/dpop": "the SDK can't bind tokens to a key",
    "auth/dpop-nonce": "the SDK can't bind tokens to a key",
    "auth/wif-jwt-bearer": "a person logs in, not a workload",
}
"""Scenarios that do not pass, and why. The revisions of the protocol require none of them."""


def reason(scenario: str) -> str:
    """Return why this scenario need not pass; empty: it must."""
    return _TASKS if scenario.startswith("tasks-") else UNSUPPORTED.get(scenario, "")


def report(title: str, outcomes: Sequence[Outcome]) -> bool:
    """Print what failed, and one line for all. Return whether the suite ran, and all went as it should."""
    required = [one for one in outcomes if not reason(one.scenario)]
    unexpected = [one for one in required if not one.is_good]
    for one in unexpected:
        sys.stdout.write(f"  failed: {one.scenario}: {one.problem}\n")
    good = sum(one.is_good for one in outcomes)
    empty = [one.scenario for one in outcomes if one.is_good and not one.passed]
    checks = f"{sum(one.passed for one in required):4d} passed, {sum(one.failed for one in required)} failed"
    sys.stdout.write(f"{title:28s} {good:3d} of {len(outcomes)} scenarios   checks of what we offer: {checks}\n")
    if empty:
        sys.stdout.write(f"  nothing to check, though counted as good: {', '.join(empty)}\n")
    sys.stdout.flush()
    return bool(outcomes) and not unexpected


async def main() -> int:
    """Run both sides. Return the exit code."""
    went_well = True
    with serve() as url:
        for revision in ("2025-11-25", "2026-07-28"):
            went_well &= report(f"server, {revision}", await try_server(url, "--requirements", revision))
    went_well &= report("client, all scenarios", await try_client(client_scenarios()))
    sys.stdout.write(f"  with a login of the SDK, which the product does not offer: {', '.join(BY_SDK)}\n")
    for scenario, why in {**UNSUPPORTED, "tasks-*": _TASKS}.items():
        sys.stdout.write(f"  not offered: {scenario}: {why}\n")
    return 0 if went_well else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
