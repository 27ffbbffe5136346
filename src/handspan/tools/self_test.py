"""The self-test of the sandbox: a script that runs inside, and what its failure means."""

from typing import Final

from handspan.tools.processes import ChildResult

PROBE_SECONDS: Final = 10.0
NO_ENTRY: Final = 96
"""The exit code when a command's user may not enter the workspace."""

# Its arguments: the user's number, the limit of open files, and the network.
SELF_TEST: Final = """
[ "$(echo forked)" = forked ] || exit 90
[ "$(id -u)" = "$1" ] || exit 91
[ -e /etc/shadow ] && exit 92
[ "$3" = host ] || [ "$(grep -c : /proc/net/dev)" -le 1 ] || exit 93
[ "$(ulimit -n)" = "$2" ] || exit 94
unshare -U true 2>/dev/null && exit 95
[ -w . ] && echo writable
exit 0
"""

_REASONS: Final = {
    90: "no process can be started inside it",
    91: "it does not run under the user it should",
    92: "files of the machine are visible inside it",
    93: "the network is visible inside it",
    94: "its limits do not hold",
    95: "new user namespaces can be made inside it",
    NO_ENTRY: "the user that commands run as may not enter the workspace",
}

_REMEDIES: Final = {
    "namespace": "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0), or in a container allow CAP_SYS_ADMIN and its mount calls",
    "uid map": "allow user namespaces (on Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
    "Operation not permitted": "in a container, allow CAP_SYS_ADMIN and the mount system calls",
    "Unknown option": "install bubblewrap 0.8 or newer",
}


def explain_failure(finished: ChildResult, how_to_allow_writing: str) -> tuple[str, str]:
    """Return why the self-test failed, and the remedy, which may be empty."""
    if finished.timed_out:
        return f"its self-test did not end within {PROBE_SECONDS:g} seconds", "see why bwrap hangs here"
    if finished.started and finished.exit_code == NO_ENTRY:
        return _REASONS[NO_ENTRY], how_to_allow_writing
    if finished.started and finished.exit_code in _REASONS:
        return _REASONS[finished.exit_code], "report this, with what is special about the machine"
    output = finished.stderr.strip()
    remedy = next((remedy for sign, remedy in _REMEDIES.items() if sign in output), "")
    return f"bubblewrap failed: {output[:500]}", remedy
