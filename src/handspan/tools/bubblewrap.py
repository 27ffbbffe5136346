"""The command line of bubblewrap for one command: its namespaces, mounts, limits, user and first process."""

import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.tools.mounts import SANDBOX_PATH, WORKSPACE, mount_options
from handspan.tools.paths import close_after
from handspan.tools.processes import Launch, SandboxHandshake
from handspan.tools.seccomp import system_call_filter

NO_ENTRY: Final = 96
"""The exit code when a command's user may not enter the workspace."""
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


class Bubblewrap:
    """Makes the command lines for one workspace, as `sandbox.py` explains them."""

    def __init__(
        self, workspace: Path, hidden: Sequence[Path], limits: CommandLimits, uid: int, *, as_root: bool
    ) -> None:
        """`uid`: the user of commands. `as_root`: the gateway runs as root and can give commands another user."""
        self._workspace = workspace
        self._hidden = hidden
        self._limits = limits
        self._uid = uid
        self._as_root = as_root
        self.filter = system_call_filter(os.uname().machine)
        """The filter of system calls; None on a machine for which none is known."""

    @contextmanager
    def launch(
        self,
        argv: Sequence[str],
        network: Network,
        on_listener: TakeListener | None = None,
        on_first: Callable[[int], object] | None = None,
    ) -> Iterator[Launch]:
        """Yield how to start this command inside the sandbox. The launch's descriptors are closed after the block.

        `on_listener` gets the listening socket of a guarded network, `on_first` the id of the sandbox's first process.
        """
        opened: list[int] = []
        with ExitStack() as stack:
            gateway_end, sandbox_end = map(stack.enter_context, socket.socketpair())
            gateway_end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

            def pass_data(data: bytes) -> str:
                opened.append(stack.enter_context(close_after(_open_memory_file(data))))
                return str(opened[-1])

            is_guarded = network == "guarded"
            mounts = mount_options(self._workspace, self._hidden, self._limits.scratch, network)
            line = [*self._namespace_options(network), *mounts]
            if self.filter is not None:
                line += ["--seccomp", pass_data(self.filter)]
            for name, text in self._etc_files(network).items():
                line += ["--perms", "0644", "--ro-bind-data", pass_data(text.encode()), f"/etc/{name}"]
            line += ["--remount-ro", "/", "--", *self._wrap_command(argv, is_guarded=is_guarded)]
            handshake = SandboxHandshake(sandbox_end, gateway_end, on_listener if is_guarded else None, on_first)
            # The environment is empty: commands can read it as the environment of process 1.
            yield Launch(tuple(line), "/", {}, tuple(opened), sandbox=handshake)

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
        yield shutil.which("bwrap") or "bwrap"
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
        proxy = _proxy_variables() if network == "guarded" else {}
        return {**_ENVIRONMENT, **({"TZ": zone} if zone else {}), **proxy}

    def _wrap_command(self, argv: Sequence[str], *, is_guarded: bool) -> tuple[str, ...]:
        """Return the words that set limits and user, then run the command.

        The limits are set inside of the sandbox, where the process count begins at 0.
        """
        limits = self._limits.prlimit(shutil.which("prlimit", path=SANDBOX_PATH) or "prlimit")
        user: tuple[str, ...] = ()
        if self._as_root:
            number = str(self._uid)
            user = (shutil.which("setpriv", path=SANDBOX_PATH) or "setpriv", "--reuid", number, "--regid", number)
            user += ("--clear-groups", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs", "--")
        script = _FIRST_PROCESS.format(
            no_release=_NO_RELEASE, descriptors=f"{_STARTER_LINE}<&0 </dev/null" if is_guarded else "</dev/null"
        )
        command = ("/bin/sh", "-c", _IN_WORKSPACE, "sh", *argv)
        return (
            "/bin/sh",
            "-c",
            script,
            "sh",
            *limits,
            *user,
            *(_start_with_listener(command) if is_guarded else command),
        )


def _open_memory_file(data: bytes) -> int:
    """Return a descriptor from which these bytes can be read once."""
    descriptor = os.memfd_create("handspan")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


# The starter of a guarded network opens the proxy's socket inside the sandbox, and then becomes the command. It runs as
# the command's user in the sandbox's own network, before the command. It listens on 127.0.0.1, sends the listening
# socket to the gateway over another socket (SCM_RIGHTS), closes both, and replaces itself by the command. So no code of
# ours stays in the sandbox that a command could attack, and the command gets no descriptor.

_STARTER_LINE: Final = 3
"""The descriptor of the starter's socket to the gateway."""
_PROXY_PORT: Final = 3128
_BACKLOG: Final = 128
_OWN_HOSTS: Final = "localhost,127.0.0.1,::1"
_PYTHON: Final = "python3"

_PROGRAM: Final = f"""
import os, socket, struct, sys
listener = socket.socket()
listener.bind(("127.0.0.1", {_PROXY_PORT}))
listener.listen({_BACKLOG})
line = socket.socket(fileno={_STARTER_LINE})
line.sendmsg([b"\\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=i", listener.fileno()))])
line.close()
listener.close()
os.execv(sys.argv[1], sys.argv[1:])
"""


def find_starter_problem() -> str:
    """Return why the starter can't run in the sandbox, and the remedy; empty when no problem is known."""
    if shutil.which(_PYTHON, path=SANDBOX_PATH) is None:
        return f"{_PYTHON!r} is not installed in {SANDBOX_PATH}; install the system's python3"
    return ""


def _start_with_listener(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words that run the starter, which becomes this command."""
    return shutil.which(_PYTHON, path=SANDBOX_PATH) or _PYTHON, "-I", "-S", "-c", _PROGRAM, *command


def _proxy_variables() -> dict[str, str]:
    """Return the variables that name the proxy, in lower and upper case: programs differ in which they read."""
    proxy = f"http://127.0.0.1:{_PROXY_PORT}"
    named = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": _OWN_HOSTS}
    return {**named, **{name.upper(): value for name, value in named.items()}, "NODE_USE_ENV_PROXY": "1"}
