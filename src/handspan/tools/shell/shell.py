"""The shell tools: `exec_shell` runs a command line, `spawn` one program with its arguments (SPEC B, S3).

With an active sandbox, `sh -c` runs the command line inside of it, after the policy has judged every visible part.
Without a sandbox only the commands of `literal_commands.py` run, as literal words and without a shell. The setting
`unsafe_shell_without_sandbox` gives the command line to the machine's own shell: then only the policy protects the
machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.tool import Annotations, Tool, ToolSpec
from handspan.core.values import Arguments, JsonObject
from handspan.tools.mounts import SANDBOX_PATH, WORKSPACE
from handspan.tools.output import DEFAULT_LIMITS, OutputLimits, OutputStorage
from handspan.tools.processes import ChildResult, Launch, find_program, run_child
from handspan.tools.sandbox import Sandbox
from handspan.tools.shell.literal_commands import LITERAL_COMMANDS, check_literal
from handspan.tools.shell.policy import CommandPolicy

MOST_SECONDS: Final = 300.0
MOST_SPAWNS: Final = 5
_SHELL_SECONDS: Final = 30.0
_SPAWN_SECONDS: Final = 60.0
_EXTRA_SECONDS: Final = 10.0
"""The engine's timeout is longer by this, so that the tool can still report the output of a late command."""
_MOST_OUTPUT: Final = 8_000
_PASSED_VARIABLES: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")
_TIMEOUT_SCHEMA: Final[JsonObject] = {"type": "number", "exclusiveMinimum": 0}
_EFFECTS: Final = Annotations(destructive=True)

_SHELL_SPEC: Final = ToolSpec(
    name="exec_shell",
    description="Run a shell command in the workspace and get its exit code, standard output and standard error.",
    parameters={
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "minLength": 1,
                "description": "The command line. It starts in the workspace: use paths relative to it.",
            },
            "timeout": {
                **_TIMEOUT_SCHEMA,
                "description": "Seconds after which the command is killed: 30 unless given, at most 300.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    permissions=("shell",),
    timeout=MOST_SECONDS + _EXTRA_SECONDS,
    annotations=_EFFECTS,
)

_SPAWN_SPEC: Final = ToolSpec(
    name="spawn",
    description="Run one program with its arguments, without a shell, and get its exit code and output.",
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "The program's name, such as 'git'."},
            "args": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Its arguments, each as it is: no quoting, no variables, no globs.",
            },
            "description": {"type": "string", "description": "What this is for, in words for people."},
            "timeout": {
                **_TIMEOUT_SCHEMA,
                "description": "Seconds after which the program is killed: 60 unless given, at most 300.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    permissions=("shell",),
    timeout=MOST_SECONDS + _EXTRA_SECONDS,
    annotations=_EFFECTS,
)


def shell_tools(
    workspace: Path,
    policy: CommandPolicy,
    sandbox: Sandbox,
    *,
    unsafe_shell_without_sandbox: bool = False,
    limits: OutputLimits = DEFAULT_LIMITS,
) -> tuple[Tool, ...]:
    """Returns both tools for one workspace."""
    is_unsafe = unsafe_shell_without_sandbox
    return (
        ExecShell(workspace, policy, sandbox, unsafe_shell_without_sandbox=is_unsafe, limits=limits),
        Spawn(workspace, policy, sandbox, unsafe_shell_without_sandbox=is_unsafe, limits=limits),
    )


class ExecShell:
    """Runs a command line."""

    spec = _SHELL_SPEC

    def __init__(
        self,
        workspace: Path,
        policy: CommandPolicy,
        sandbox: Sandbox,
        *,
        unsafe_shell_without_sandbox: bool = False,
        limits: OutputLimits = DEFAULT_LIMITS,
    ) -> None:
        self._launcher = _CommandLauncher(workspace, policy, sandbox, unsafe_shell_without_sandbox)
        self._limits = limits

    async def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        await self._launcher.ready()
        with self._launcher.launch_text(cast(str, arguments["command"])) as launch:
            return await _run_launch(launch, arguments, _SHELL_SECONDS, ctx, self._limits, self.spec.name)


class Spawn:
    """Runs one program, at most five at once."""

    spec = _SPAWN_SPEC

    def __init__(
        self,
        workspace: Path,
        policy: CommandPolicy,
        sandbox: Sandbox,
        *,
        unsafe_shell_without_sandbox: bool = False,
        limits: OutputLimits = DEFAULT_LIMITS,
    ) -> None:
        self._launcher = _CommandLauncher(workspace, policy, sandbox, unsafe_shell_without_sandbox)
        self._limits = limits
        self._active = 0

    async def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        command = cast(str, arguments["command"])
        argv = (command, *cast(list[str], arguments.get("args", [])))
        await self._launcher.ready()
        with self._launcher.launch_argv(argv) as launch, self._limit_spawns():
            result = await _run_launch(launch, arguments, _SPAWN_SECONDS, ctx, self._limits, self.spec.name)
        return {**result, "command": command, "description": arguments.get("description", "")}

    @contextmanager
    def _limit_spawns(self) -> Iterator[None]:
        """Counts this spawn during the block. Raises `busy` when too many run."""
        if self._active >= MOST_SPAWNS:
            raise ToolError(
                "busy",
                f"concurrency limit reached: {self._active} active spawns (max {MOST_SPAWNS}). "
                "Wait until one has ended, then call again.",
            )
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1


class _CommandLauncher:
    """Decides how a command starts: in the sandbox, or as a literal command without one."""

    def __init__(self, workspace: Path, policy: CommandPolicy, sandbox: Sandbox, is_unsafe: bool) -> None:
        self._workspace = workspace
        self._policy = policy
        self._sandbox = sandbox
        self._is_unsafe = is_unsafe

    async def ready(self) -> None:
        """Tests the sandbox. Raises `policy_denied` when a sandbox is required and not active."""
        report = await self._sandbox.ready()
        if self._sandbox.is_required and not report.active:
            raise ToolError(
                "policy_denied",
                "command not allowed: the setting tools.sandbox.enabled demands a sandbox, and it is off: "
                f"{report.reason}" + (f"; to get it: {report.remedy}." if report.remedy else "."),
            )

    @contextmanager
    def launch_text(self, command: str) -> Iterator[Launch]:
        """Yields how to start this command line. Raises `ToolError` when it may not run."""
        script = self._policy.judge_text(command)
        if not script.parts:
            raise ToolError("invalid_arguments", f"There is nothing to run in {command!r}: give a command.")
        if self._sandbox.active:
            with self._sandbox.launch(("sh", "-c", command)) as launch:
                yield launch
        elif self._is_unsafe:
            yield self._launch_unsafe(("/bin/sh", "-c", command))
        elif script.is_literal:
            yield self._launch_literal(tuple(word.text for word in script.parts[0].words))
        else:
            raise ToolError(
                "policy_denied",
                f"command not allowed: {command[:200]!r} needs a shell (pipes, redirections, variables, globs, lists), "
                f"and without a sandbox there is none: run one command with literal words. {self._how_to_get_more()}",
            )

    @contextmanager
    def launch_argv(self, argv: tuple[str, ...]) -> Iterator[Launch]:
        """Yields how to start this program. Raises `ToolError` when it may not run or does not exist."""
        self._policy.judge_argv(argv)
        if self._sandbox.active:
            self._find_program(argv[0], SANDBOX_PATH)
            with self._sandbox.launch(argv) as launch:
                yield launch
        elif self._is_unsafe:
            self._find_program(argv[0], os.environ.get("PATH", SANDBOX_PATH))
            yield self._launch_unsafe(argv)
        else:
            yield self._launch_literal(argv)

    def _launch_literal(self, argv: tuple[str, ...]) -> Launch:
        """Returns how to start a literal command without a sandbox. Raises `policy_denied` when it is not listed."""
        name = argv[0].rpartition("/")[2]  # the folder is ignored: always the system's own program runs
        if name not in LITERAL_COMMANDS:
            raise ToolError(
                "policy_denied",
                f"command not allowed: {argv[0]!r}. Without a sandbox only these run: {' '.join(LITERAL_COMMANDS)}. "
                f"{self._how_to_get_more()}",
            )
        check_literal((name, *argv[1:]), self._workspace, self._sandbox.hidden)
        program = self._find_program(name, SANDBOX_PATH)
        return Launch((program, *argv[1:]), str(self._workspace), {"PATH": SANDBOX_PATH, "LANG": "C.UTF-8"})

    def _launch_unsafe(self, argv: tuple[str, ...]) -> Launch:
        """Returns how to start a command on the machine itself, with a few environment variables."""
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        return Launch(argv, str(self._workspace), environment)

    def _find_program(self, name: str, search_path: str) -> str:
        """Returns the program's file. Raises `execution_failed` when there is none."""
        path = str(self._workspace) + name.removeprefix(WORKSPACE) if name.startswith(f"{WORKSPACE}/") else name
        if "/" in path:
            path = os.path.join(self._workspace, path)
        program = find_program(path, search_path)
        if program is None:
            raise ToolError(
                "execution_failed",
                f"command not found: {name!r}: there is no such program (the shell's own, such as cd, are none).",
            )
        return program

    def _how_to_get_more(self) -> str:
        report = self._sandbox.report
        remedy = f"; to get it: {report.remedy}" if report.remedy else ""
        return (
            f"The sandbox is off: {report.reason}{remedy}. A person can also allow the machine's own shell by the "
            "setting tools.unsafe_shell_without_sandbox."
        )


async def _run_launch(
    launch: Launch, arguments: Arguments, default: float, ctx: ToolContext, limits: OutputLimits, tool: str
) -> JsonObject:
    """Runs the command and returns its result. Raises `timeout` when it takes too long."""
    asked = float(cast(float, arguments.get("timeout", default)))
    seconds = min(asked, MOST_SECONDS)
    storage = OutputStorage(ctx, tool)
    finished = await run_child(
        launch, timeout=seconds, progress=ctx.progress, limits=limits, store=storage.store_stream
    )
    if finished.timed_out:
        raise ToolError("timeout", _timeout_message(finished, seconds))
    if not finished.started:
        raise ToolError("execution_failed", f"The sandbox could not be started: {finished.stderr.strip()[:2000]}")
    result: JsonObject = {
        "exit_code": finished.exit_code,
        **await storage.show({"stdout": finished.output, "stderr": finished.errors}, limits.preview),
        "duration_ms": round(finished.seconds * 1000),
    }
    if asked > seconds:  # SPEC E5: the answer says that the timeout was cut
        result["note"] = f"A timeout of {asked:g} s is above the limit: {seconds:g} s held."
    return result


def _timeout_message(finished: ChildResult, seconds: float) -> str:
    outputs = [
        f"{name} so far: {text.tail[-_MOST_OUTPUT:]!r}"
        + (f" (whole: artifact {text.artifact!r})" * bool(text.artifact))
        for name, text in (("stdout", finished.output), ("stderr", finished.errors))
        if text.size
    ]
    output = ". ".join(outputs) if outputs else "It had written nothing"
    return (
        f"timeout after {seconds:g}s: the command and everything it had started was killed. {output}. "
        f"Give a longer timeout (at most {MOST_SECONDS:g}) or do less at once."
    )
