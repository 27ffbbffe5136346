"""`make conformance`: the whole suite against our server and our client, as a table."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.conformance.auth import BY_SDK
from tests.conformance.suite import OLDER_SUITE, Outcome, client_scenarios, serve, try_client, try_server

_TASKS: Final = "we do not offer the extension for tasks"
UNSUPPORTED: Final[Mapping[str, str]] = {
    "auth/dpop": "the SDK can't bind tokens to a key",
    "auth/dpop-nonce": "the SDK can't bind tokens to a key",
    "auth/wif-jwt-bearer": "a person logs in, not a workload",
}
"""Scenarios that do not pass, and why. The revisions of the protocol require none of them."""
FEWEST_OF_OLDER_SUITE: Final = 24
"""So many scenarios of the release 0.1 have to pass with our client, of 26."""
NOT_OF_OLDER_SUITE: Final[Mapping[str, str]] = {
    "auth/2025-03-26-oauth-metadata-backcompat": "its metadata name another issuer: a client has to refuse that",
}
"""Scenarios that pass in the newer release only, and why (RFC 8414, 3.3)."""


_CALLS_ASK: Final = "a tool of a gateway asks its person, not the client: it has no fixture that asks for single rounds"
_NO_FILES: Final = "the resources of a gateway are artifacts, and its prompts are skills, which are texts"
NOT_AT_A_GATEWAY: Final[Mapping[str, str]] = {
    "completion-": "a gateway completes no arguments",
    "logging-": "a gateway sends its log to no client",
    "tools-call-with-logging": "a gateway sends its log to no client",
    "tools-call-sampling": "a gateway asks no client's model: agents have their own",
    "resources-subscribe": "artifacts never change, so there is nothing to subscribe to",
    "resources-unsubscribe": "artifacts never change, so there is nothing to subscribe to",
    "resources-read-": _NO_FILES,
    "resources-templates-read": _NO_FILES,
    "prompts-get-embedded-resource": _NO_FILES,
    "prompts-get-with-image": _NO_FILES,
    "server-sse-polling": "a gateway stores no events: a client asks for the result of a broken call in the journal",
    "input-required-result-": _CALLS_ASK,
    "server-stateless": "its last checks need a tool that wants sampling",
    "tasks-": _TASKS,
}
"""What the door of a gateway has no equivalent of, by the beginning of the scenario's name, and why."""


def gateway_reason(scenario: str) -> str:
    """Return why this scenario need not pass at the door of a gateway; empty: it must."""
    return next((why for start, why in NOT_AT_A_GATEWAY.items() if scenario.startswith(start)), "")


def reason(scenario: str) -> str:
    """Return why this scenario need not pass; empty: it must."""
    return _TASKS if scenario.startswith("tasks-") else UNSUPPORTED.get(scenario, "")


def older_reason(scenario: str) -> str:
    """Return why this scenario of the release 0.1 need not pass; empty: it must."""
    return NOT_OF_OLDER_SUITE.get(scenario, "") or reason(scenario)


def report(title: str, outcomes: Sequence[Outcome], excuse: Callable[[str], str] = reason) -> bool:
    """Print what failed, and one line for all. Return whether the suite ran, and all went as it should.

    `excuse` returns why a scenario need not pass.
    """
    required = [one for one in outcomes if not excuse(one.scenario)]
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
        went_well &= report("server, release 0.1", await try_server(url, suite=OLDER_SUITE))
    with serve("gateway") as url:
        for revision in ("2025-11-25", "2026-07-28"):
            outcomes = await try_server(url, "--requirements", revision)
            went_well &= report(f"gateway, {revision}", outcomes, gateway_reason)
    for start, why in NOT_AT_A_GATEWAY.items():
        sys.stdout.write(f"  not at a gateway: {start}*: {why}\n")
    went_well &= report("client, all scenarios", await try_client(client_scenarios()))
    older = await try_client(client_scenarios(OLDER_SUITE), OLDER_SUITE)
    went_well &= report("client, release 0.1", older, older_reason)
    went_well &= sum(one.is_good and one.passed > 0 for one in older) >= FEWEST_OF_OLDER_SUITE
    sys.stdout.write(f"  with a login of the SDK, which the product does not offer: {', '.join(BY_SDK)}\n")
    for scenario, why in NOT_OF_OLDER_SUITE.items():
        sys.stdout.write(f"  not in release 0.1: {scenario}: {why}\n")
    for scenario, why in {**UNSUPPORTED, "tasks-*": _TASKS}.items():
        sys.stdout.write(f"  not offered: {scenario}: {why}\n")
    return 0 if went_well else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
