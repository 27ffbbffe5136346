"""The shell tools: `exec_shell` runs a command line, `spawn` one program with its arguments (SPEC B, S3).

With an active sandbox, `sh -c` runs the command line in the sandbox, after the policy has judged every visible part.
With a guarded network, a forward proxy of the gateway serves the command while it runs.
Without a sandbox, only the commands of `literal_commands.py` run, as literal words and without a shell. The setting
`unsafe_shell_without_sandbox` gives the command line to the machine's own shell: then only the policy protects the
machine. `launcher.py` decides between these ways, and `description.py` tells the model which one holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.tool import Annotations, Tool, ToolSpec, parameters, string
from handspan.core.values import Arguments, Json, JsonObject
from handspan.tools.output import DEFAULT_LIMITS, OutputLimits, OutputStorage
from handspan.tools.processes import ChildResult, run_child
from handspan.tools.result_sources import FROM_COMMAND
from handspan.tools.sandbox import Sandbox
from handspan.tools.shell.description import explain_network_failure
from handspan.tools.shell.launcher import CommandLauncher, OpenProxy, Prepared
from handspan.tools.shell.policy import CommandPolicy

MAX_SECONDS: Final = 300.0
MAX_SPAWNS: Final = 5
_SHELL_SECONDS: Final = 30.0
_SPAWN_SECONDS: Final = 60.0
_EXTRA_SECONDS: Final = 10.0
"""Seconds by which the engine's timeout is longer, so that the tool can still report the output of a late command."""
_MAX_OUTPUT: Final = 8_000
"""Characters at the end of a stream that a timeout shows, and that are searched for a network failure."""
_EFFECTS: Final = Annotations(destructive=True, group="workspace")


def _make_spec(name: str, description: str, /, **properties: Json) -> ToolSpec:
    """Return the spec of a shell tool."""
    return ToolSpec(
        name,
        description,
        parameters("command", **properties),
        permissions=("shell",),
        timeout=MAX_SECONDS + _EXTRA_SECONDS,
        annotations=_EFFECTS,
    )


def _timeout(description: str) -> JsonObject:
    return {"type": "number", "exclusiveMinimum": 0, "description": description}


_SHELL_SPEC: Final = _make_spec(
    "exec_shell",
    "Run a shell command (by `sh`) in the workspace and get its exit code, output and error output.",
    command=string("The command line. It starts in the workspace: use paths relative to it.", minLength=1),
    timeout=_timeout("Seconds after which the command is killed: 30 unless given, at most 300."),
)
_SPAWN_SPEC: Final = _make_spec(
    "spawn",
    "Run one program with its arguments, without a shell, and get its exit code and output.",
    command=string("The program's name, such as 'git'.", minLength=1),
    args={
        "type": "array",
        "items": {"type": "string"},
        "description": "Its arguments, each as it is: no quoting, no variables, no globs.",
    },
    description=string("What this is for, in words for people."),
    timeout=_timeout("Seconds after which the program is killed: 60 unless given, at most 300."),
)


def shell_tools(
    workspace: Path,
    policy: CommandPolicy,
    sandbox: Sandbox,
    *,
    unsafe_shell_without_sandbox: bool = False,
    open_proxy: OpenProxy | None = None,
    limits: OutputLimits = DEFAULT_LIMITS,
) -> tuple[Tool, ...]:
    """Return both tools for one workspace.

    `open_proxy` makes the proxy of a command with a guarded network. None: such a command has no network.
    """
    launcher = CommandLauncher(workspace, policy, sandbox, unsafe_shell_without_sandbox, open_proxy=open_proxy)
    return ExecShell(launcher, limits), Spawn(launcher, limits)


class ExecShell:
    """Runs a command line."""

    handling: Final = FROM_COMMAND

    def __init__(self, launcher: CommandLauncher, limits: OutputLimits = DEFAULT_LIMITS) -> None:
        self._launcher = launcher
        self._limits = limits

    @property
    def spec(self) -> ToolSpec:
        """The definition, with a description of what a command can do on this machine now."""
        return self._launcher.complete(_SHELL_SPEC)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        """Return the command's exit code and output."""
        await self._launcher.ready()
        async with self._launcher.prepare_text(cast(str, arguments["command"])) as prepared:
            output = OutputStorage(ctx, _SHELL_SPEC.name, self._limits)
            return await _run_prepared(prepared, arguments, _SHELL_SECONDS, output)


class Spawn:
    """Runs one program, at most five at once."""

    handling: Final = FROM_COMMAND

    def __init__(self, launcher: CommandLauncher, limits: OutputLimits = DEFAULT_LIMITS) -> None:
        self._launcher = launcher
        self._limits = limits
        self._active = 0

    @property
    def spec(self) -> ToolSpec:
        """The definition, with a description of what a program can do on this machine now."""
        return self._launcher.complete(_SPAWN_SPEC)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> JsonObject:
        """Return the program's exit code and output. Raises `busy` when too many run."""
        command = cast(str, arguments["command"])
        argv = (command, *cast(list[str], arguments.get("args", [])))
        await self._launcher.ready()
        async with self._launcher.prepare_argv(argv) as prepared:
            with self._limit_spawns():
                output = OutputStorage(ctx, _SPAWN_SPEC.name, self._limits)
                result = await _run_prepared(prepared, arguments, _SPAWN_SECONDS, output)
        return {**result, "command": command, "description": arguments.get("description", "")}

    @contextmanager
    def _limit_spawns(self) -> Iterator[None]:
        """Count this spawn during the block. Raises `busy` when too many run."""
        if self._active >= MAX_SPAWNS:
            raise ToolError(
                "busy",
                f"concurrency limit reached: {self._active} active spawns (max {MAX_SPAWNS}). "
                "Wait until one has ended, then call again.",
            )
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1


async def _run_prepared(prepared: Prepared, arguments: Arguments, default: float, output: OutputStorage) -> JsonObject:
    """Run the command and return its result. Raises `timeout` when the command takes too long."""
    asked = float(cast(float, arguments.get("timeout", default)))
    seconds = min(asked, MAX_SECONDS)
    finished = await run_child(
        prepared.launch, timeout=seconds, progress=output.progress, limits=output.limits, store=output.store_stream
    )
    if finished.timed_out:
        raise ToolError("timeout", " ".join((_timeout_message(finished, seconds), *prepared.problems)))
    if not finished.started:
        raise ToolError("execution_failed", f"The sandbox could not be started: {finished.stderr.strip()[:2000]}")
    result: JsonObject = {
        "exit_code": finished.exit_code,
        **await output.show({"stdout": finished.output, "stderr": finished.errors}),
        "duration_ms": round(finished.seconds * 1000),
    }
    notes = [*prepared.problems]
    if prepared.launch.sandbox and finished.exit_code and not notes:
        notes += explain_network_failure(finished.errors.tail[-_MAX_OUTPUT:], prepared.network)
    if finished.left_behind:
        notes.append(
            f"Background processes ended with the command ({finished.left_behind}): each call is a shell of its own. "
            "Use what you start in the same call, and wait for it there."
        )
    if asked > seconds:  # SPEC E5: the answer says that the timeout was cut
        notes.append(f"A timeout of {asked:g} s is above the limit: {seconds:g} s held.")
    return {**result, "note": " ".join(notes)} if notes else result


def _timeout_message(finished: ChildResult, seconds: float) -> str:
    """Return what the model is told of a command that took too long, with the end of its output."""
    outputs = [
        f"{name} so far: {text.tail[-_MAX_OUTPUT:]!r}" + (f" (whole: artifact {text.artifact!r})" * bool(text.artifact))
        for name, text in (("stdout", finished.output), ("stderr", finished.errors))
        if text.size
    ]
    output = ". ".join(outputs) if outputs else "It had written nothing"
    return (
        f"timeout after {seconds:g}s: the command and everything it had started was killed. {output}. "
        f"Give a longer timeout (at most {MAX_SECONDS:g}) or do less at once."
    )
