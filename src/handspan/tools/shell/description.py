"""Tells the model what a command can do on this machine now (SPEC S3)."""

import re
from collections.abc import Iterator
from typing import Final

from handspan.tools.bubblewrap import Network
from handspan.tools.sandbox import SandboxReport
from handspan.tools.shell.literal_commands import LITERAL_COMMANDS
from handspan.tools.shell.policy import CommandPolicy

_FRESH: Final = "Each call starts afresh: folder, variables and background processes (`cmd &`) end with it, files stay."
_SANDBOX: Final = (
    "It runs in a sandbox: the programs of /usr, the workspace at /workspace, "
    "and an empty /tmp that is deleted afterwards."
)
_NETWORKS: Final = {
    "none": "There is no network: use web_fetch or http_request instead.",
    "guarded": "The network is a proxy for http and https to public hosts, so git over https, pip, npm and curl work; "
    "ssh, UDP and DNS do not.",
    "host": "The network is that of the machine.",
}
# What programs say when they can't look a host up or reach it.
_NO_NETWORK: Final = (
    r"(?i)could not resolve|name resolution|name or service not known|network is unreachable|EAI_AGAIN|ENOTFOUND"
)
_HINTS: Final = {
    "none": "There is no network in this sandbox: use web_fetch or http_request. "
    "A person can give it one by the setting tools.sandbox.network.",
    "guarded": "The network of this sandbox is a proxy for http and https (see http_proxy and https_proxy), which a "
    "program has to use. ssh, UDP and DNS are closed.",
}


def describe_situation(policy: CommandPolicy, report: SandboxReport, *, is_unsafe: bool, is_possible: bool) -> str:
    """Return the sentences that hold for every command: sandbox or list, network, and that each call starts afresh."""
    if not is_possible:
        return f"No command can run now: it needs a sandbox, which is off ({report.reason})."
    if report.active:
        return " ".join((_FRESH, _SANDBOX, _NETWORKS[report.network], *_only_listed(policy)))
    if is_unsafe:
        return " ".join((_FRESH, "It runs on the machine itself, without a sandbox.", *_only_listed(policy)))
    return (
        "There is no sandbox here, so give one command with literal words, without pipes, redirections, variables "
        f"or globs. Only these run, and only read in the workspace: {', '.join(LITERAL_COMMANDS)}."
    )


def _only_listed(policy: CommandPolicy) -> tuple[str, ...]:
    return (f"Only these commands run: {', '.join(policy.listed_commands)}.",) if policy.is_allow_list else ()


def explain_network_failure(stderr: str, network: Network) -> Iterator[str]:
    """Yield a hint for the model when a program complains of a missing network."""
    if network in _HINTS and re.search(_NO_NETWORK, stderr):
        yield _HINTS[network]
