"""The sandbox for commands: bubblewrap without secrets. Only /usr and the workspace are visible.

A command gets: /usr read-only, the workspace at /workspace (its real path is a link to /workspace), an empty /tmp that
is deleted afterwards, only its own processes, a few environment variables, and limits for all resources. The paths in
`hidden` are covered even inside the workspace. `.git/hooks` and `.git/config` are read-only, because the git of a
person runs the programs that they name.

The user of commands. When the gateway runs as root, commands run as another user (`uid`, 65534 by default), because no
limit holds for root. That user owns no files: in a workspace of another user, commands can only read what everybody
may read. The owner of a person's files is never changed. Instead:
- A workspace that we create (`create_workspace`) belongs to that user.
- File tools create files for that user (`file_owner`).
- For an existing workspace `report.warning` says that commands can't write, and how a person can change that.
When the gateway does not run as root, commands run as the gateway's own user.

The network of commands (`network`):
- `none`: an empty network, in which a command reaches only what it starts itself.
- `guarded`: an empty network with one listening socket. The starter (in `bubblewrap.py`) opens that socket, sends it to
  the gateway, and becomes the command. The gateway serves a forward proxy on the socket (`net/forward_proxy.py`).
- `host`: the network of the machine.

`hidden` should name existing folders, not files: a cover is mounted when a command starts. A file that is replaced by
renaming loses its cover for the commands that run at that moment.
"""

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.tools.bubblewrap import NO_ENTRY, Bubblewrap, CommandLimits, Network, TakeListener, find_starter_problem
from handspan.tools.memory_group import MemoryGroup, open_memory_group
from handspan.tools.processes import ChildResult, Launch, run_child

SANDBOX_UID: Final = 65534
_PROGRAMS: Final = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}

_SYSTEMS: Final = {"darwin": "macOS", "win32": "Windows"}
_WITHOUT_LINUX: Final = "for commands beyond the short list that runs without it, run the gateway on Linux"

_PROBE_SECONDS: Final = 10.0
# Its arguments: the user's number, the limit of open files, and the network.
_SELF_TEST: Final = """
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


class SandboxReport(Struct, frozen=True):
    """Whether commands run in a sandbox, and why not. Start-up, `doctor` and refusals show this report."""

    active: bool
    reason: str
    """Why the sandbox is not active; for an active sandbox, how it was tested."""
    remedy: str = ""
    """What a person can do to get the sandbox."""
    warning: str = ""
    """What does not work in an active sandbox."""
    network: Network = "none"
    """The network that commands really have."""
    is_possible: bool = True
    """Whether this system can have a sandbox. macOS can't have one, so a person can't repair that."""

    @property
    def status(self) -> str:
        """The state of the sandbox, in words."""
        return "active" if self.active else "NOT active" if self.is_possible else "not on this system"

    def __str__(self) -> str:
        state = f"sandbox: {'on' if self.active else 'off'} ({self.reason})"
        return "; ".join(text for text in (state, self.remedy, self.warning) if text)


class Sandbox:
    """Starts commands in bubblewrap. The first call of `ready` tests it by a real run."""

    def __init__(
        self,
        workspace: Path,
        report: SandboxReport | None = None,
        *,
        hidden: Sequence[Path] = (),
        uid: int = SANDBOX_UID,
        limits: CommandLimits | None = None,
        as_root: bool | None = None,
        switch: Literal["auto", "on", "off"] = "auto",
        network: Network = "none",
    ) -> None:
        """`report`: the result of an earlier test. `uid`: the user of commands when the gateway runs as root.

        `switch`: "off" never uses the sandbox, "on" requires it.
        """
        self.workspace = workspace
        self.hidden = tuple(hidden)
        self.is_required = switch == "on"
        self._is_off = switch == "off"
        self._report = report
        self._assumed: SandboxReport | None = None
        self._wanted_network = network
        self._listeners: list[Callable[[], None]] = []
        self._test_lock = asyncio.Lock()
        self._as_root = os.geteuid() == 0 if as_root is None else as_root
        self._wanted_uid = uid
        self._uid = uid if self._as_root else os.geteuid()
        self._limits = limits or CommandLimits()
        self._group: MemoryGroup | None = None
        """What bounds the memory of all commands; None before the test, and where the system can't."""
        self._bubblewrap = Bubblewrap(workspace, self.hidden, self._limits, self._uid, as_root=self._as_root)

    async def ready(self) -> SandboxReport:
        """Return the report. The first call tests the sandbox by a real run."""
        async with self._test_lock:
            if self._report is None:
                self._report = self._find_obstacle() or await self._test()
                for on_tested in self._listeners:
                    on_tested()
        return self._report

    def listen(self, on_tested: Callable[[], None]) -> None:
        """Call `on_tested` once, when the test has ended and `report` has its result."""
        if self._report is None:
            self._listeners.append(on_tested)

    @property
    def report(self) -> SandboxReport:
        """The report of the test; before the test, an inactive one."""
        return self._report or SandboxReport(active=False, reason="it was not tested yet")

    @property
    def expected_report(self) -> SandboxReport:
        """The report; before the test, the report that is likely."""
        if self._report is not None:
            return self._report
        if self._assumed is None:
            obstacle = self._find_obstacle()
            if obstacle is not None:
                return obstacle  # not stored, because an obstacle may go away, such as a missing workspace
            self._assumed = SandboxReport(
                active=True, reason="bubblewrap, not tested yet", network=self._wanted_network
            )
        return self._assumed

    @property
    def active(self) -> bool:
        return self.report.active

    @property
    def file_owner(self) -> tuple[int, int] | None:
        """User and group for new files of the workspace, so that commands can change them. None: the gateway's own."""
        return (self._uid, self._uid) if self._as_root and self.expected_report.active else None

    def _find_obstacle(self) -> SandboxReport | None:
        """Return a report that says why the sandbox can't be used; None if nothing is known without a test."""
        if self._is_off:
            return SandboxReport(active=False, reason="it is switched off", remedy="set tools.sandbox.enabled to auto")
        return _find_missing(self.workspace, self._wanted_uid)

    def launch(self, argv: Sequence[str], on_listener: TakeListener | None = None) -> AbstractContextManager[Launch]:
        """Return how to start this command inside the sandbox. The launch's descriptors are closed after the block.

        `on_listener` gets the listening socket of a guarded network. Without it, such a command has no network.
        """
        network = self.report.network
        return self._launch(argv, "none" if network == "guarded" and on_listener is None else network, on_listener)

    def _launch(
        self, argv: Sequence[str], network: Network, on_listener: TakeListener | None
    ) -> AbstractContextManager[Launch]:
        return self._bubblewrap.launch(argv, network, on_listener, self._group.add if self._group else None)

    async def _test(self) -> SandboxReport:
        """Return the report of a self-test with the wanted network or, if the starter can't run, without one."""
        self._group = open_memory_group(self._limits.all_memory)
        if self._wanted_network != "guarded":
            return await self._test_with(self._wanted_network)
        problem = find_starter_problem()
        if not problem:
            report = await self._test_with("guarded")
            if report.active:
                return report
            problem = report.reason
        warning = f"commands have no network, though tools.sandbox.network is 'guarded': {problem}"
        return await self._test_with("none", warning)

    async def _test_with(self, network: Network, warning: str = "") -> SandboxReport:
        """Run the self-test inside of the sandbox and return its report."""
        script = ("sh", "-c", _SELF_TEST, "sh", str(self._uid), str(self._limits.open_files), network)
        received: list[socket.socket] = []
        group = self._group
        try:
            with self._launch(script, network, received.append) as launch:
                finished = await run_child(launch, timeout=_PROBE_SECONDS)
        except ToolError as error:
            return SandboxReport(active=False, reason=error.message)
        finally:
            for listener in received:
                listener.close()
        if finished.exit_code != 0 or not finished.started:
            reason, remedy = _explain_failure(finished, self._how_to_allow_writing())
            return SandboxReport(active=False, reason=reason, remedy=remedy)
        if network == "guarded" and not received:
            return SandboxReport(active=False, reason="the starter of the guarded network handed out no socket")
        if group is not None and not group.has_worked:
            group.close()
            self._group = None
        reason = "bubblewrap, tested" if network == "none" else f"bubblewrap, tested; network: {network}"
        reason += f"; {self._describe_memory()}"
        warnings = self._warnings(writable="writable" in finished.stdout)
        return SandboxReport(
            active=True, reason=reason, warning="; ".join(filter(None, (*warnings, warning))), network=network
        )

    def _describe_memory(self) -> str:
        """Return which bound the memory of commands has."""
        if self._group is not None:
            return f"memory of all commands: {self._group.limit // 1024**2} MiB"
        one = self._limits.memory // 1024**2
        return f"memory: {one} MiB a process, and no bound for all (no control group); they are ended first"

    def _warnings(self, *, writable: bool) -> list[str]:
        """Return what does not work as well as it could in this sandbox."""
        warnings = []
        if not writable:
            warnings.append(
                f"commands can read but not write in the workspace {str(self.workspace)!r}, which does not belong to "
                f"their user {self._uid}; to allow it: {self._how_to_allow_writing()}"
            )
        if self._bubblewrap.filter is None:
            warnings.append(f"no system call filter is known for {os.uname().machine!r}")
        return warnings

    def _how_to_allow_writing(self) -> str:
        return f"chown {self._uid} {self.workspace}, or setfacl -R -m u:{self._uid}:rwX {self.workspace}"


def create_workspace(path: Path, uid: int = SANDBOX_UID) -> None:
    """Create the workspace folder if it is missing. As root, the new folder belongs to the sandbox's user."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(path, uid, uid)


def _find_missing(workspace: Path, uid: int) -> SandboxReport | None:
    """Return a report that says what a sandbox lacks on this machine; None if nothing is missing."""
    if sys.platform != "linux":
        system = _SYSTEMS.get(sys.platform, repr(sys.platform))
        return SandboxReport(
            active=False, reason=f"bubblewrap needs Linux, this is {system}", remedy=_WITHOUT_LINUX, is_possible=False
        )
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return SandboxReport(
                active=False, reason=f"{program!r} is not installed", remedy=f"apt-get install {package}"
            )
    if not workspace.is_dir():
        return SandboxReport(
            active=False, reason=f"the workspace {str(workspace)!r} is no folder", remedy="create it or set another one"
        )
    if workspace.resolve() == Path("/"):
        return SandboxReport(
            active=False, reason="the workspace is the whole machine", remedy="set a folder of its own as workspace"
        )
    if uid == 0:
        return SandboxReport(
            active=False,
            reason="commands would run as root, and no limit holds for root",
            remedy="give the sandbox another user's number",
        )
    return None


def _explain_failure(finished: ChildResult, how_to_allow_writing: str) -> tuple[str, str]:
    """Return why the self-test failed, and the remedy, which may be empty."""
    if finished.timed_out:
        return f"its self-test did not end within {_PROBE_SECONDS:g} seconds", "see why bwrap hangs here"
    if finished.started and finished.exit_code == NO_ENTRY:
        return _REASONS[NO_ENTRY], how_to_allow_writing
    if finished.started and finished.exit_code in _REASONS:
        return _REASONS[finished.exit_code], "report this, with what is special about the machine"
    output = finished.stderr.strip()
    remedy = next((remedy for sign, remedy in _REMEDIES.items() if sign in output), "")
    return f"bubblewrap failed: {output[:500]}", remedy
