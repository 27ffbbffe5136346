"""The sandbox for commands: bubblewrap without network and secrets. Only /usr and the workspace are visible.

A command gets: /usr read-only, the workspace at /workspace (its real path is a link to it), an empty /tmp that is
deleted afterwards, only its own processes, a few environment variables, and limits for all resources. The paths in
`hidden` are covered even inside the workspace. `.git/hooks` and `.git/config` are read-only, because people run them.

The user of commands. When the gateway runs as root, commands run as another user (`uid`, 65534 by default), because no
limit holds for root. That user owns no files: in a workspace of another user, commands can only read what everybody
may read. The owner of a person's files is never changed. Instead:
- A workspace that we create (`create_workspace`) belongs to that user.
- File tools create files for that user (`file_owner`).
- For an existing workspace `report.warning` says that commands can't write, and how a person can change that.
When the gateway does not run as root, commands run as the gateway's own user.

`hidden` should name existing folders, not files: a cover is mounted when a command starts. A file that is replaced by
renaming loses its cover for the commands that run at that moment.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.tools.mounts import SANDBOX_PATH, WORKSPACE, Mounts
from handspan.tools.processes import ChildResult, Launch, SandboxHandshake, find_program, run_child
from handspan.tools.seccomp import system_call_filter

SANDBOX_UID: Final = 65534
_PROGRAMS: Final = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}
_PROBE_SECONDS: Final = 10.0
_NO_ENTRY: Final = 96
_NO_RELEASE: Final = 97

# The first process inside. It dies with bubblewrap, which dies with the gateway, and all other processes die with it.
# bubblewrap asks the kernel for that late. So the first process reports that it is there and waits for the gateway's
# release: `read` fails when the gateway is gone. It keeps bubblewrap's own user, so that bubblewrap may kill it.
_FIRST_PROCESS: Final = f"""
echo >&0; read -r word || exit {_NO_RELEASE}
"$@" </dev/null
exit $?
"""
# Not bubblewrap's --chdir: as root it can't enter a folder that only the commands' user may enter.
_IN_WORKSPACE: Final = f'cd {WORKSPACE} || exit {_NO_ENTRY}; exec "$@"'

_ENVIRONMENT: Final = {
    "PATH": SANDBOX_PATH,
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    # git refuses a workspace that belongs to another user than the command's, unless this is set.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}

_SELF_TEST: Final = """
[ "$(echo forked)" = forked ] || exit 90
[ "$(id -u)" = "$1" ] || exit 91
[ -e /etc/shadow ] && exit 92
[ "$(grep -c : /proc/net/dev)" -le 1 ] || exit 93
[ "$(ulimit -n)" = "$2" ] || exit 94
unshare -U true 2>/dev/null && exit 95
[ -w . ] && echo writable
exit 0
"""

_SELF_TEST_REASONS: Final = {
    90: "no process can be started inside it",
    91: "it does not run under the user it should",
    92: "files of the machine are visible inside it",
    93: "the network is visible inside it",
    94: "its limits do not hold",
    95: "new user namespaces can be made inside it",
    _NO_ENTRY: "the user that commands run as may not enter the workspace",
}

_SYSTEMS: Final = {"darwin": "macOS", "win32": "Windows"}
_WITHOUT_LINUX: Final = "a short list of commands runs without it; for all others run the gateway on Linux"

_REMEDIES: Final = {
    "namespace": "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0), or in a container allow CAP_SYS_ADMIN and its mount calls",
    "uid map": "allow user namespaces (on Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
    "Operation not permitted": "in a container, allow CAP_SYS_ADMIN and the mount system calls",
    "Unknown option": "install bubblewrap 0.8 or newer",
}


class CommandLimits(Struct, frozen=True):
    """Limits of one command, in bytes, seconds and counts. All but `scratch` hold for each of its processes."""

    cpu_seconds: int = 300
    address_space: int = 2 * 1024**3
    file_size: int = 1024**3
    open_files: int = 256
    processes: int = 256
    """For all commands together where the sandbox has its own user; otherwise for one command."""
    scratch: int = 256 * 1024**2
    """The size of /tmp, and of /dev/shm."""

    def prlimit(self, program: str) -> tuple[str, ...]:
        """Returns the words that start `prlimit` with these limits."""
        return (
            program,
            f"--cpu={self.cpu_seconds}",
            f"--as={self.address_space}",
            f"--fsize={self.file_size}",
            f"--nofile={self.open_files}",
            f"--nproc={self.processes}",
            "--core=0",
            "--",
        )


class SandboxReport(Struct, frozen=True):
    """Whether commands run in a sandbox, and why not. Start-up, `doctor` and refusals show it."""

    active: bool
    reason: str
    remedy: str = ""
    warning: str = ""

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
    ) -> None:
        """`report`: the result of an earlier test. `switch` "off" never uses the sandbox, "on" requires it."""
        self.workspace = workspace
        self.hidden = tuple(hidden)
        self.is_required = switch == "on"
        self._is_off = switch == "off"
        self._report = report
        self._test_lock = asyncio.Lock()
        self._as_root = os.geteuid() == 0 if as_root is None else as_root
        self._wanted_uid = uid
        self._uid = uid if self._as_root else os.geteuid()
        self._limits = limits or CommandLimits()
        self._mounts = Mounts(workspace, self.hidden, self._limits.scratch)
        self._filter = system_call_filter(os.uname().machine)

    @classmethod
    async def probe(
        cls,
        workspace: Path,
        *,
        hidden: Sequence[Path] = (),
        uid: int = SANDBOX_UID,
        limits: CommandLimits | None = None,
    ) -> "Sandbox":
        """Returns the tested sandbox for this workspace; its `report` says whether it is active, and why not."""
        sandbox = cls(workspace, hidden=hidden, uid=uid, limits=limits)
        await sandbox.ready()
        return sandbox

    async def ready(self) -> SandboxReport:
        """Returns whether the sandbox is active. The first call tests it by a real run."""
        async with self._test_lock:
            if self._report is None:
                self._report = self._find_obstacle() or await self._test()
        return self._report

    @property
    def report(self) -> SandboxReport:
        return self._report or _inactive("it was not tested yet")

    @property
    def active(self) -> bool:
        return self.report.active

    @property
    def file_owner(self) -> tuple[int, int] | None:
        """User and group for new files of the workspace, so that commands can change them. None: the gateway's own."""
        will_be_active = self.active if self._report else self._find_obstacle() is None
        return (self._uid, self._uid) if self._as_root and will_be_active else None

    def _find_obstacle(self) -> SandboxReport | None:
        """Returns the reason why the sandbox can't be used, as far as it is known without a test."""
        if self._is_off:
            return _inactive("it is switched off", "set tools.sandbox.enabled to auto")
        return _find_missing(self.workspace, self._wanted_uid)

    @contextmanager
    def launch(self, argv: Sequence[str]) -> Iterator[Launch]:
        """Returns how to start this program inside. Its descriptors are closed after the block."""
        opened: list[int] = []
        options: list[str] = []
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            if self._filter is not None:
                opened.append(_open_memory_file(self._filter))
                options += ["--seccomp", str(opened[-1])]
            for name, entry in (("passwd", "sandbox:x:{0}:{0}::/tmp:/bin/sh\n"), ("group", "sandbox:x:{0}:\n")):
                opened.append(_open_memory_file(entry.format(self._uid).encode()))
                options += ["--perms", "0644", "--ro-bind-data", str(opened[-1]), f"/etc/{name}"]
            line = (
                *self._namespace_options(),
                *self._mounts.options(),
                *options,
                "--remount-ro",
                "/",
                "--",
                *self._wrap_command(argv),
            )
            # Commands can read bubblewrap's own environment, as that of process 1: so it is empty.
            yield Launch(line, "/", {}, tuple(opened), SandboxHandshake(theirs, ours))
        finally:
            for descriptor in opened:
                os.close(descriptor)
            ours.close()
            theirs.close()

    def _namespace_options(self) -> Iterator[str]:
        """Yields bubblewrap and its options for namespaces, capabilities and environment."""
        yield find_program("bwrap") or "bwrap"
        yield from ("--as-pid-1", "--unshare-pid", "--unshare-net")
        yield from ("--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        yield from ("--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL")
        if self._as_root:  # root in a user namespace is root outside too; setpriv needs these three, then drops them
            for name in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                yield from ("--cap-add", name)
        else:
            yield from ("--unshare-user", "--disable-userns")
        yield "--clearenv"
        for name, value in self._environment().items():
            yield from ("--setenv", name, value)

    def _environment(self) -> dict[str, str]:
        zone = os.environ.get("TZ")
        return {**_ENVIRONMENT, "TZ": zone} if zone else dict(_ENVIRONMENT)

    def _wrap_command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Returns the words that set limits and user, then run the command. Inside, the process count begins at 0."""
        limits = self._limits.prlimit(find_program("prlimit", SANDBOX_PATH) or "prlimit")
        user: tuple[str, ...] = ()
        if self._as_root:
            number = str(self._uid)
            user = (find_program("setpriv", SANDBOX_PATH) or "setpriv", "--reuid", number, "--regid", number)
            user += ("--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs", "--")
        return ("/bin/sh", "-c", _FIRST_PROCESS, "sh", *limits, *user, "/bin/sh", "-c", _IN_WORKSPACE, "sh", *argv)

    async def _test(self) -> SandboxReport:
        """Runs the self-test inside of the sandbox and returns its report."""
        script = ("sh", "-c", _SELF_TEST, "sh", str(self._uid), str(self._limits.open_files))
        try:
            with self.launch(script) as launch:
                finished = await run_child(launch, timeout=_PROBE_SECONDS)
        except ToolError as error:
            return _inactive(error.message)
        if finished.exit_code != 0 or not finished.started:
            return _explain_failed_test(finished, self._how_to_allow_writing())
        return SandboxReport(True, "bubblewrap, tested", warning=self._warning("writable" in finished.stdout))

    def _warning(self, writable: bool) -> str:
        warnings = []
        if not writable:
            warnings.append(
                f"commands can read but not write in the workspace {str(self.workspace)!r}, which does not belong to "
                f"their user {self._uid}; to allow it: {self._how_to_allow_writing()}"
            )
        if self._filter is None:
            warnings.append(f"no system call filter is known for {os.uname().machine!r}")
        return "; ".join(warnings)

    def _how_to_allow_writing(self) -> str:
        return f"chown {self._uid} {self.workspace}, or setfacl -R -m u:{self._uid}:rwX {self.workspace}"


def create_workspace(path: Path, uid: int = SANDBOX_UID) -> None:
    """Creates the workspace folder if it is missing. As root, the new folder belongs to the sandbox's user."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(path, uid, uid)


def _find_missing(workspace: Path, uid: int) -> SandboxReport | None:
    if sys.platform != "linux":
        system = _SYSTEMS.get(sys.platform, repr(sys.platform))
        return _inactive(f"bubblewrap needs Linux, this is {system}", _WITHOUT_LINUX)
    for program, package in _PROGRAMS.items():
        if find_program(program) is None:
            return _inactive(f"{program!r} is not installed", f"apt-get install {package}")
    if not workspace.is_dir():
        return _inactive(f"the workspace {str(workspace)!r} is no folder", "create it or set another one")
    if workspace.resolve() == Path("/"):
        return _inactive("the workspace is the whole machine", "set a folder of its own as workspace")
    if uid == 0:
        return _inactive(
            "commands would run as root, and no limit holds for root", "give the sandbox another user's number"
        )
    return None


def _explain_failed_test(finished: ChildResult, how_to_allow_writing: str) -> SandboxReport:
    if finished.timed_out:
        return _inactive(f"its self-test did not end within {_PROBE_SECONDS:g} seconds", "see why bwrap hangs here")
    if finished.started and finished.exit_code in _SELF_TEST_REASONS:
        remedy = (
            how_to_allow_writing
            if finished.exit_code == _NO_ENTRY
            else "report this, with what is special about the machine"
        )
        return _inactive(_SELF_TEST_REASONS[finished.exit_code], remedy)
    output = finished.stderr.strip()
    remedy = next((remedy for sign, remedy in _REMEDIES.items() if sign in output), "")
    return _inactive(f"bubblewrap failed: {output[:500]}", remedy)


def _inactive(reason: str, remedy: str = "") -> SandboxReport:
    return SandboxReport(False, reason, remedy)


def _open_memory_file(data: bytes) -> int:
    """Returns a descriptor from which these bytes can be read once."""
    descriptor = os.memfd_create("handspan")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
