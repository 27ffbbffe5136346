"""The starter of a guarded network: opens the proxy's socket inside the sandbox, and then becomes the command.

The starter runs as the command's user in the sandbox's own network, before the command. It listens on 127.0.0.1, sends
the listening socket to the gateway over another socket (SCM_RIGHTS), closes both, and replaces itself by the command.
So no code of ours stays in the sandbox that a command could attack, and the command gets no descriptor.
"""

from collections.abc import Sequence
from typing import Final

from handspan.tools.mounts import SANDBOX_PATH
from handspan.tools.processes import find_program

STARTER_LINE: Final = 3
"""The descriptor of the starter's socket to the gateway."""
PROXY_PORT: Final = 3128
_BACKLOG: Final = 128
_OWN_HOSTS: Final = "localhost,127.0.0.1,::1"
_PYTHON: Final = "python3"

_PROGRAM: Final = f"""
import os, socket, struct, sys
listener = socket.socket()
listener.bind(("127.0.0.1", {PROXY_PORT}))
listener.listen({_BACKLOG})
line = socket.socket(fileno={STARTER_LINE})
line.sendmsg([b"\\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=i", listener.fileno()))])
line.close()
listener.close()
os.execv(sys.argv[1], sys.argv[1:])
"""


def find_starter_problem() -> str:
    """Return why the starter can't run in the sandbox, and the remedy; empty when no problem is known."""
    if find_program(_PYTHON, SANDBOX_PATH) is None:
        return f"{_PYTHON!r} is not installed in {SANDBOX_PATH}; install the system's python3"
    return ""


def start_with_listener(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words that run the starter, which becomes this command."""
    return find_program(_PYTHON, SANDBOX_PATH) or _PYTHON, "-I", "-S", "-c", _PROGRAM, *command


def proxy_variables() -> dict[str, str]:
    """Return the variables that name the proxy, in lower and upper case: programs differ in which they read."""
    proxy = f"http://127.0.0.1:{PROXY_PORT}"
    named = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": _OWN_HOSTS}
    return {**named, **{name.upper(): value for name, value in named.items()}, "NODE_USE_ENV_PROXY": "1"}
