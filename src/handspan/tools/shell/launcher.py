"""How a command starts: in the sandbox, without one as a literal command, or unsafe on the machine (SPEC S3)."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from handspan.core.errors import ToolError
from handspan.core.tool import ToolSpec
from handspan.tools.bubblewrap import Network
from handspan.tools.mounts import SANDBOX_PATH, WORKSPACE
from handspan.tools.processes import Launch
from handspan.tools.sandbox import Sandbox
from handspan.tools.shell.description import describe_situation
from handspan.tools.shell.literal_commands import LITERAL_COMMANDS, check_literal
from handspan.tools.shell.policy import CommandPolicy
from handspan.tools.shell.script import Script

if TYPE_CHECKING:
    from handspan.net.forward_proxy import ForwardProxy

OpenProxy: TypeAlias = Callable[[], "ForwardProxy"]
_PASSED_VARIABLES: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")


class Prepared(Struct, frozen=True):
    """How to start a command, and what may explain its failure."""

    launch: Launch
    network: Network = "none"
    problems: Sequence[str] = ()
    """What the proxy of a guarded network has refused. This list may grow while the command runs."""


class CommandLauncher:
    """Decides how a command starts: in the sandbox, as a literal command without one, or unsafe on the machine."""

    def __init__(
        self,
        workspace: Path,
        policy: CommandPolicy,
        sandbox: Sandbox,
        is_unsafe: bool = False,
        open_proxy: OpenProxy | None = None,
    ) -> None:
        """`is_unsafe`: commands may run on the machine itself. `open_proxy`: see `shell_tools`."""
        self._workspace = workspace
        self._policy = policy
        self._sandbox = sandbox
        self._is_unsafe = is_unsafe
        self._open_proxy = open_proxy

    @property
    def network(self) -> Network:
        """The network that commands have in the sandbox."""
        network = self._sandbox.expected_report.network
        return "none" if network == "guarded" and self._open_proxy is None else network

    def complete(self, spec: ToolSpec) -> ToolSpec:
        """Return the spec with the limits of commands on this machine: sandbox, network, allowed commands."""
        report = self._sandbox.expected_report
        is_possible = report.active or not self._sandbox.is_required
        situation = describe_situation(
            replace(self._policy, in_sandbox=report.active),
            replace(report, network=self.network),
            is_unsafe=self._is_unsafe,
            is_possible=is_possible,
        )
        is_open = self.network != "none" if report.active else self._is_unsafe
        annotations = replace(spec.annotations, open_world=is_open)
        return replace(spec, description=f"{spec.description} {situation}", annotations=annotations)

    async def ready(self) -> None:
        """Test the sandbox. Raises `policy_denied` when a sandbox is required and not active."""
        report = await self._sandbox.ready()
        if self._sandbox.is_required and not report.active:
            raise ToolError(
                "policy_denied",
                "command not allowed: the setting tools.sandbox.enabled demands a sandbox, and it is off: "
                f"{report.reason}" + (f"; to get it: {report.remedy}." if report.remedy else "."),
            )

    def prepare_text(self, command: str) -> AbstractAsyncContextManager[Prepared]:
        """Return how to start this command line. Raises `ToolError` when the command line may not run."""
        if not self._sandbox.active and not self._is_unsafe:
            return nullcontext(Prepared(self._launch_literal(self._split_literal(command))))
        script = replace(self._policy, in_sandbox=self._sandbox.active).judge_text(command)
        _refuse_empty(script, command)
        if self._sandbox.active:
            return self._prepare_in_sandbox(("sh", "-c", command))
        return nullcontext(Prepared(self._launch_unsafe(("/bin/sh", "-c", command))))

    def prepare_argv(self, argv: tuple[str, ...]) -> AbstractAsyncContextManager[Prepared]:
        """Return how to start this program. Raises `ToolError` when the program may not run or does not exist."""
        if not self._sandbox.active and not self._is_unsafe:
            replace(self._policy, mode="denylist").judge_argv(argv)
            return nullcontext(Prepared(self._launch_literal(argv)))
        replace(self._policy, in_sandbox=self._sandbox.active).judge_argv(argv)
        if self._sandbox.active:
            self._find_program(argv[0], SANDBOX_PATH)
            return self._prepare_in_sandbox(argv)
        self._find_program(argv[0], os.environ.get("PATH", SANDBOX_PATH))
        return nullcontext(Prepared(self._launch_unsafe(argv)))

    @asynccontextmanager
    async def _prepare_in_sandbox(self, argv: Sequence[str]) -> AsyncIterator[Prepared]:
        """Yield how to start this program in the sandbox. The proxy of a guarded network ends after the block."""
        if self._open_proxy is None or self.network != "guarded":
            with self._sandbox.launch(argv) as launch:
                yield Prepared(launch, self.network)
            return
        async with self._open_proxy() as proxy:
            with self._sandbox.launch(argv, proxy.serve) as launch:
                yield Prepared(launch, self.network, proxy.problems)

    def _split_literal(self, command: str) -> tuple[str, ...]:
        """Return the words of one literal command. Raises `policy_denied` when the command needs a shell."""
        # Only the deny list: `_launch_literal` has an allow list of its own.
        script = replace(self._policy, mode="denylist").judge_text(command)
        _refuse_empty(script, command)
        if not script.is_literal:
            raise ToolError(
                "policy_denied",
                f"command not allowed: {command[:200]!r} needs a shell (pipes, redirections, variables, globs, lists), "
                f"and without a sandbox there is none: run one command with literal words. {self._how_to_get_more()}",
            )
        return tuple(word.text for word in script.parts[0].words)

    def _launch_literal(self, argv: tuple[str, ...]) -> Launch:
        """Return how to start a literal command without a sandbox. Raises `policy_denied` for an unlisted command."""
        name = argv[0].rpartition("/")[2]  # the folder is ignored: the system's own program always runs
        if name not in LITERAL_COMMANDS:
            raise ToolError(
                "policy_denied",
                f"command not allowed: {argv[0]!r}. Without a sandbox only these run: {' '.join(LITERAL_COMMANDS)}. "
                f"Use the file and web tools for other work. {self._how_to_get_more()}",
            )
        self._policy.judge_argv((name, *argv[1:]))
        check_literal((name, *argv[1:]), self._workspace, self._sandbox.hidden)
        program = self._find_program(name, SANDBOX_PATH)
        return Launch((program, *argv[1:]), str(self._workspace), {"PATH": SANDBOX_PATH, "LANG": "C.UTF-8"})

    def _launch_unsafe(self, argv: tuple[str, ...]) -> Launch:
        """Return how to start a command on the machine itself, with a few environment variables."""
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        return Launch(argv, str(self._workspace), environment)

    def _find_program(self, name: str, search_path: str) -> str:
        """Return the program's file. Raises `execution_failed` when there is no such program."""
        path = str(self._workspace) + name.removeprefix(WORKSPACE) if name.startswith(f"{WORKSPACE}/") else name
        if "/" in path:
            path = os.path.join(self._workspace, path)
        program = shutil.which(path, path=search_path)
        if program is None:
            text = f"command not found: {name!r}: there is no such program (the shell's own, such as cd, are none)."
            raise ToolError("execution_failed", text)
        return program

    def _how_to_get_more(self) -> str:
        report = self._sandbox.report
        remedy = f"; to get it: {report.remedy}" if report.remedy else ""
        return (
            f"The sandbox is off: {report.reason}{remedy}. A person can also allow the machine's own shell by the "
            "setting tools.unsafe_shell_without_sandbox."
        )


def _refuse_empty(script: Script, command: str) -> None:
    if not script.parts:
        raise ToolError("invalid_arguments", f"There is nothing to run in {command!r}: give a command.")
