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
- `guarded`: an empty network with one listening socket. The starter (`starter.py`) opens that socket, sends it to the
  gateway, and becomes the command. The gateway serves a forward proxy on the socket (`net/forward_proxy.py`).
- `host`: the network of the machine.

`hidden` should name existing folders, not files: a cover is mounted when a command starts. A file that is replaced by
renaming loses its cover for the commands that run at that moment.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.tools.memory_group import MemoryGroup, open_memory_group
from handspan.tools.mounts import SANDBOX_PATH, WORKSPACE, Mounts
from handspan.tools.processes import Launch, SandboxHandshake, find_program, run_child
from handspan.tools.seccomp import system_call_filter
from handspan.tools.self_test import NO_ENTRY, PROBE_SECONDS, SELF_TEST, explain_failure
from handspan.tools.starter import STARTER_LINE, find_starter_problem, proxy_variables, start_with_listener

SANDBOX_UID: Final = 65534
_PROGRAMS: Final = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}
_NO_RELEASE: Final = 97

# The first process in the sandbox. It dies with bubblewrap, which dies with the gateway, and all other processes of the
# sandbox die with the first process. bubblewrap asks the kernel for that late. So the first process reports that it
# runs and waits for the gateway's release: `read` fails when the gateway is gone. The first process keeps bubblewrap's
# own user, so that bubblewrap may kill it. At its end it reports how many processes are left: they end with it, and
# the caller should know. A zombie is not counted: its command line is empty.
# When the computer runs out of memory, the kernel ends processes of the sandbox before all others (oom_score_adj).
_FIRST_PROCESS: Final = """
echo 1000 2>/dev/null >/proc/self/oom_score_adj
echo >&0; read -r word || exit {no_release}
"$@" {descriptors}
code=$? left=0
for file in /proc/[0-9]*/cmdline; do
    words=; IFS= read -r words <$file
    [ -n "$words" ] && [ $file != /proc/1/cmdline ] && left=$((left + 1))
done 2>/dev/null
[ $left = 0 ] || echo $left >&0
exit $code
"""
# bubblewrap's --chdir is not used: bubblewrap as root can't enter a folder that only the commands' user may enter.
_IN_WORKSPACE: Final = f'cd {WORKSPACE} || exit {NO_ENTRY}; exec "$@"'

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

_SYSTEMS: Final = {"darwin": "macOS", "win32": "Windows"}
_WITHOUT_LINUX: Final = "for commands beyond the short list that runs without it, run the gateway on Linux"

Network: TypeAlias = Literal["none", "guarded", "host"]
TakeListener: TypeAlias = Callable[[socket.socket], None]


class CommandLimits(Struct, frozen=True):
    """Limits of one command, in bytes, seconds and counts. All but `scratch` and `all_memory` are for each process."""

    cpu_seconds: int = 300
    memory: int = 2 * 1024**3
    address_space: int = 64 * 1024**3
    """Much more than `memory`: Node.js and Java reserve large ranges that they never use."""
    file_size: int = 1024**3
    open_files: int = 256
    processes: int = 256
    """For all commands together if the sandbox has its own user; otherwise for one command."""
    scratch: int = 256 * 1024**2
    """The size of /tmp, and of /dev/shm."""
    all_memory: int = 0
    """For all processes of all commands together, where the system can bound that. 0: half of the memory."""

    def prlimit(self, program: str) -> tuple[str, ...]:
        """Return the words that start `prlimit` with these limits."""
        return (
            program,
            f"--cpu={self.cpu_seconds}",
            f"--data={self.memory}",
            f"--as={self.address_space}",
            f"--fsize={self.file_size}",
            f"--nofile={self.open_files}",
            f"--nproc={self.processes}",
            "--core=0",
            "--",
        )


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
        network: Network = "none",
    ) -> "Sandbox":
        """Return a tested sandbox for this workspace. Its `report` says whether it is active, and why not."""
        sandbox = cls(workspace, hidden=hidden, uid=uid, limits=limits, network=network)
        await sandbox.ready()
        return sandbox

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
        return self._report or _inactive("it was not tested yet")

    @property
    def expected(self) -> SandboxReport:
        """The report; before the test, the report that is likely."""
        if self._report is not None:
            return self._report
        if self._assumed is None:
            obstacle = self._find_obstacle()
            if obstacle is not None:
                return obstacle  # not stored, because an obstacle may go away, such as a missing workspace
            self._assumed = SandboxReport(True, "bubblewrap, not tested yet", network=self._wanted_network)
        return self._assumed

    @property
    def active(self) -> bool:
        return self.report.active

    @property
    def file_owner(self) -> tuple[int, int] | None:
        """User and group for new files of the workspace, so that commands can change them. None: the gateway's own."""
        return (self._uid, self._uid) if self._as_root and self.expected.active else None

    def _find_obstacle(self) -> SandboxReport | None:
        """Return a report that says why the sandbox can't be used; None if nothing is known without a test."""
        if self._is_off:
            return _inactive("it is switched off", "set tools.sandbox.enabled to auto")
        return _find_missing(self.workspace, self._wanted_uid)

    def launch(self, argv: Sequence[str], on_listener: TakeListener | None = None) -> AbstractContextManager[Launch]:
        """Return how to start this command inside the sandbox. The launch's descriptors are closed after the block.

        `on_listener` gets the listening socket of a guarded network. Without it, such a command has no network.
        """
        network = self.report.network
        return self._launch(argv, "none" if network == "guarded" and on_listener is None else network, on_listener)

    @contextmanager
    def _launch(self, argv: Sequence[str], network: Network, on_listener: TakeListener | None) -> Iterator[Launch]:
        opened: list[int] = []
        options: list[str] = []
        gateway_end, sandbox_end = socket.socketpair()
        gateway_end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            if self._filter is not None:
                opened.append(_open_memory_file(self._filter))
                options += ["--seccomp", str(opened[-1])]
            for name, entry in self._etc_files(network).items():
                opened.append(_open_memory_file(entry.encode()))
                options += ["--perms", "0644", "--ro-bind-data", str(opened[-1]), f"/etc/{name}"]
            line = (
                *self._namespace_options(network),
                *self._mounts.options(network),
                *options,
                "--remount-ro",
                "/",
                "--",
                *self._wrap_command(argv, is_guarded=network == "guarded"),
            )
            handshake = SandboxHandshake(
                sandbox_end,
                gateway_end,
                on_listener if network == "guarded" else None,
                self._group.add if self._group else None,
            )
            # The environment is empty: commands can read it as the environment of process 1.
            yield Launch(line, "/", {}, tuple(opened), sandbox=handshake)
        finally:
            for descriptor in opened:
                os.close(descriptor)
            gateway_end.close()
            sandbox_end.close()

    def _etc_files(self, network: Network) -> dict[str, str]:
        """Return the files of /etc that we write: the names of the user, of the author of commits, and of the host."""
        files = {
            "passwd": f"sandbox:x:{self._uid}:{self._uid}::/tmp:/bin/sh\n",
            "group": f"sandbox:x:{self._uid}:\n",
            "gitconfig": "[user]\n\tname = sandbox\n\temail = sandbox@localhost\n",
        }
        return files if network == "host" else {**files, "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n"}

    def _namespace_options(self, network: Network) -> Iterator[str]:
        """Yield bubblewrap and its options for namespaces, capabilities and environment."""
        yield find_program("bwrap") or "bwrap"
        yield from ("--as-pid-1", "--unshare-pid")
        if network != "host":
            yield "--unshare-net"
        yield from ("--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
        yield from ("--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL")
        # Root in a user namespace is root outside, too, so root gets none. setpriv needs these three, then drops them.
        if self._as_root:
            for name in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                yield from ("--cap-add", name)
        else:
            yield from ("--unshare-user", "--disable-userns")
        yield "--clearenv"
        for name, value in self._environment(network).items():
            yield from ("--setenv", name, value)

    def _environment(self, network: Network) -> dict[str, str]:
        zone = os.environ.get("TZ")
        return {
            **_ENVIRONMENT,
            **({"TZ": zone} if zone else {}),
            **(proxy_variables() if network == "guarded" else {}),
        }

    def _wrap_command(self, argv: Sequence[str], *, is_guarded: bool) -> tuple[str, ...]:
        """Return the words that set limits and user, then run the command.

        The limits are set inside of the sandbox, where the process count begins at 0.
        """
        limits = self._limits.prlimit(find_program("prlimit", SANDBOX_PATH) or "prlimit")
        user: tuple[str, ...] = ()
        if self._as_root:
            number = str(self._uid)
            user = (find_program("setpriv", SANDBOX_PATH) or "setpriv", "--reuid", number, "--regid", number)
            user += ("--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs", "--")
        script = _FIRST_PROCESS.format(
            no_release=_NO_RELEASE, descriptors=f"{STARTER_LINE}<&0 </dev/null" if is_guarded else "</dev/null"
        )
        command = ("/bin/sh", "-c", _IN_WORKSPACE, "sh", *argv)
        return (
            "/bin/sh",
            "-c",
            script,
            "sh",
            *limits,
            *user,
            *(start_with_listener(command) if is_guarded else command),
        )

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
        script = ("sh", "-c", SELF_TEST, "sh", str(self._uid), str(self._limits.open_files), network)
        received: list[socket.socket] = []
        group = self._group
        try:
            with self._launch(script, network, received.append) as launch:
                finished = await run_child(launch, timeout=PROBE_SECONDS)
        except ToolError as error:
            return _inactive(error.message)
        finally:
            for listener in received:
                listener.close()
        if finished.exit_code != 0 or not finished.started:
            return _inactive(*explain_failure(finished, self._how_to_allow_writing()))
        if network == "guarded" and not received:
            return _inactive("the starter of the guarded network handed out no socket")
        if group is not None and not group.has_worked:
            group.close()
            self._group = None
        reason = "bubblewrap, tested" if network == "none" else f"bubblewrap, tested; network: {network}"
        reason += f"; {self._describe_memory()}"
        warnings = self._warnings("writable" in finished.stdout)
        return SandboxReport(True, reason, warning="; ".join(filter(None, (*warnings, warning))), network=network)

    def _describe_memory(self) -> str:
        """Return which bound the memory of commands has."""
        if self._group is not None:
            return f"memory of all commands: {self._group.limit // 1024**2} MiB"
        one = self._limits.memory // 1024**2
        return f"memory: {one} MiB a process, and no bound for all (no control group); they are ended first"

    def _warnings(self, writable: bool) -> list[str]:
        warnings = []
        if not writable:
            warnings.append(
                f"commands can read but not write in the workspace {str(self.workspace)!r}, which does not belong to "
                f"their user {self._uid}; to allow it: {self._how_to_allow_writing()}"
            )
        if self._filter is None:
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
        return SandboxReport(False, f"bubblewrap needs Linux, this is {system}", _WITHOUT_LINUX, is_possible=False)
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


def _inactive(reason: str, remedy: str = "") -> SandboxReport:
    return SandboxReport(False, reason, remedy)


def _open_memory_file(data: bytes) -> int:
    """Return a descriptor from which these bytes can be read once."""
    descriptor = os.memfd_create("handspan")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
