"""The sandbox holds: real bubblewrap, real escapes tried. Where it can't be had, the tests say why they are skipped."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from handspan.tools import memory_group
from handspan.tools.bubblewrap import CommandLimits
from handspan.tools.processes import ChildResult, Launch, run_child
from handspan.tools.sandbox import SANDBOX_UID, Sandbox, SandboxReport, create_workspace
from handspan.tools.seccomp import system_call_filter
from tests.tools.child_processes import (
    LIMIT,
    Reports,
    all_end,
    is_gone,
    new_mark,
    probe,
    processes_with,
    states_of_children,
)

pytestmark = pytest.mark.anyio

as_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives commands another user's identity")
HOOK = "#!/bin/sh\n"


@pytest.fixture
def folder(on_disk: Path) -> Path:
    """A workspace as we create it: commands may write there."""
    path = on_disk / "private" / "ws"
    create_workspace(path)
    path.parent.chmod(0o700)
    return path


@pytest.fixture
async def sandbox(folder: Path) -> Sandbox:
    return await probed(folder)


async def probed(folder: Path, *hidden: Path, limits: CommandLimits | None = None, uid: int = SANDBOX_UID) -> Sandbox:
    sandbox = await probe(Sandbox(folder, hidden=hidden, limits=limits, uid=uid))
    if shutil.which("bwrap") is None or "namespace" in sandbox.report.reason:
        pytest.skip(str(sandbox.report))
    assert sandbox.active, sandbox.report
    return sandbox


async def within(sandbox: Sandbox, command: str, timeout: float = LIMIT) -> ChildResult:
    with sandbox.launch(("sh", "-c", command)) as launch:
        return await run_child(launch, timeout=timeout)


async def python(sandbox: Sandbox, code: str) -> ChildResult:
    with sandbox.launch(("python3", "-c", code)) as launch:
        return await run_child(launch, timeout=LIMIT)


def owned_by_commands(path: Path) -> Path:
    """So that only the sandbox, and no file mode, is in the way of the commands."""
    if os.geteuid() == 0:
        os.chown(path, SANDBOX_UID, SANDBOX_UID)
    return path


def secret_in(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    secret = path / "token"
    secret.write_text("the secret")
    secret.chmod(0o666)
    owned_by_commands(path)
    return path


# Probing


async def test_without_bubblewrap_it_is_off_and_says_how_to_install_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    sandbox = await probe(Sandbox(folder))
    assert not sandbox.active
    assert sandbox.report == SandboxReport(False, "'bwrap' is not installed", "apt-get install bubblewrap")
    assert str(sandbox.report) == "sandbox: off ('bwrap' is not installed); apt-get install bubblewrap"
    assert sandbox.file_owner is None


@pytest.mark.parametrize(
    ("bwrap", "reason", "remedy"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions", "user namespaces"),
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "uid map", "apparmor"),
        ("echo 'bwrap: Unknown option --size' >&2; exit 1", "Unknown option", "0.8 or newer"),
        ("echo 'bwrap: Creating mount: Operation not permitted' >&2; exit 1", "not permitted", "CAP_SYS_ADMIN"),
        ("exit 1", "bubblewrap failed", ""),
        ("exit 0", "bubblewrap failed", ""),
    ],
)
async def test_a_bubblewrap_that_fails_means_off_with_its_words_and_a_remedy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bwrap: str, reason: str, remedy: str
) -> None:
    monkeypatch.setenv("PATH", f"{fake_bwrap(tmp_path, bwrap)}:{os.environ['PATH']}")
    report = (await probe(Sandbox(folder))).report
    assert not report.active
    assert reason in report.reason and remedy in report.remedy


@pytest.mark.parametrize(
    ("code", "reason"),
    [(90, "no process"), (91, "user"), (92, "files"), (93, "network"), (94, "limits"), (95, "user n")],
)
async def test_a_wall_that_does_not_hold_means_off(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    programs = fake_bwrap(tmp_path, f"echo >&0; read -r word; exit {code}")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    report = (await probe(Sandbox(folder))).report
    assert not report.active and reason in report.reason


async def test_a_bubblewrap_that_can_not_be_started_means_off(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = fake_bwrap(tmp_path, "exit 0")
    (programs / "bwrap").write_text("#!/no/such/interpreter\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert "Could not start" in (await probe(Sandbox(folder))).report.reason


def fake_bwrap(tmp_path: Path, script: str) -> Path:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (programs / "bwrap").chmod(0o755)
    return programs


async def test_without_a_workspace_it_is_off(tmp_path: Path) -> None:
    assert "is no folder" in (await probe(Sandbox(tmp_path / "missing"))).report.reason


async def test_the_whole_machine_is_no_workspace() -> None:
    assert "whole machine" in (await probe(Sandbox(Path("/")))).report.reason


async def test_commands_never_run_as_root(folder: Path) -> None:
    assert "would run as root" in (await probe(Sandbox(folder, uid=0))).report.reason


async def test_elsewhere_than_on_linux_it_is_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "needs Linux" in (await probe(Sandbox(folder))).report.reason


async def test_an_active_one_says_so_and_has_nothing_to_warn_of(sandbox: Sandbox) -> None:
    assert sandbox.active
    assert str(sandbox.report).startswith("sandbox: on (bubblewrap, tested; memory")
    assert sandbox.report.warning == ""


@as_root_only
async def test_a_workspace_of_another_user_stays_theirs_and_the_report_says_how_to_open_it(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    (theirs / "a.txt").write_text("readable")
    sandbox = await probed(theirs)
    assert f"chown {SANDBOX_UID}" in sandbox.report.warning and repr(str(theirs)) in sandbox.report.warning
    finished = await within(sandbox, "cat a.txt && touch b.txt")
    assert finished.stdout == "readable" and finished.exit_code == 1
    assert theirs.stat().st_uid == 0 and not (theirs / "b.txt").exists()


@as_root_only
async def test_commands_run_as_the_user_that_new_files_belong_to(sandbox: Sandbox, folder: Path) -> None:
    assert sandbox.file_owner == (SANDBOX_UID, SANDBOX_UID)
    assert (await within(sandbox, "id -u; id -g; id -G")).stdout == f"{SANDBOX_UID}\n" * 3
    assert os.stat(folder).st_uid == SANDBOX_UID


@as_root_only
async def test_a_workspace_that_commands_may_not_enter_means_off_and_how_to_open_it(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    await probed(theirs)
    theirs.chmod(0o700)
    report = (await probe(Sandbox(theirs))).report
    assert not report.active and "may not enter" in report.reason
    assert report.remedy.startswith(f"chown {SANDBOX_UID} {theirs}")


def test_a_workspace_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    create_workspace(tmp_path)
    assert (tmp_path.stat().st_uid, tmp_path.stat().st_mode & 0o777) == (os.geteuid(), 0o755)


# What can't be seen


async def test_the_network_can_not_be_reached(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)"
        finished = await python(sandbox, code)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert "ConnectionRefusedError" in finished.stderr or "unreachable" in finished.stderr


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/hostname", "/root", "/home", "/var", "/opt", "/sys", "/boot"])
async def test_nothing_of_the_machine_but_usr_is_visible(sandbox: Sandbox, path: str) -> None:
    finished = await within(sandbox, f"ls -d {path}")
    assert finished.exit_code == 2 and "No such file" in finished.stderr


async def test_other_processes_are_invisible(sandbox: Sandbox) -> None:
    mark = new_mark()
    other = await asyncio.create_subprocess_exec("sleep", mark)
    finished = await within(sandbox, "ls /proc | grep -c '^[0-9]'; cat /proc/[0-9]*/cmdline")
    assert not is_gone(mark)
    other.kill()
    await other.wait()
    assert int(finished.stdout.splitlines()[0]) <= 6
    assert mark not in finished.stdout


async def test_no_variable_of_the_gateway_is_visible(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sesame-open")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    finished = await within(sandbox, "env; cat /proc/*/environ 2>/dev/null; date +%Z")
    assert "sesame" not in finished.stdout
    names = {line.partition("=")[0] for line in finished.stdout.splitlines() if "=" in line and "\0" not in line}
    assert names <= {"PATH", "HOME", "TMPDIR", "LANG", "TERM", "PWD", "TZ", "OLDPWD", "SHLVL", "_"} | {
        f"GIT_CONFIG_{name}" for name in ("COUNT", "KEY_0", "VALUE_0")
    }
    assert finished.stdout.endswith("JST\n")


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})])
async def test_no_descriptor_of_the_gateway_is_passed_on(sandbox: Sandbox) -> None:
    inherited = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(inherited, True)  # as one that the gateway itself got from the program that started it
    finished = await within(sandbox, "exec ls /proc/self/fd")
    os.close(inherited)
    assert finished.stdout.split() == ["0", "1", "2", "3"]  # the last one is the folder that ls reads


async def test_hidden_folders_and_files_of_the_workspace_can_not_be_read_or_changed(folder: Path) -> None:
    state = secret_in(folder / "state")
    settings = folder / "settings.toml"
    settings.write_text("the secret")
    settings.chmod(0o666)
    sandbox = await probed(folder, state, settings, folder / "missing")
    for command in ("cat state/token", "cat settings.toml", "cat /proc/self/root/workspace/state/token", "ls -R ."):
        assert "the secret" not in (await within(sandbox, command)).stdout
    for command in ("touch state/new", "rm -r state", "rm settings.toml", "mv state other", "echo >settings.toml"):
        assert (await within(sandbox, command)).exit_code != 0
    assert (state / "token").read_text() == settings.read_text() == "the secret"


async def test_a_hidden_folder_can_not_be_uncovered_by_moving_the_folder_around_it(folder: Path) -> None:
    state = secret_in(folder / "deep" / "deeper" / "state")
    owned_by_commands(folder / "deep")
    owned_by_commands(folder / "deep" / "deeper")
    sandbox = await probed(folder, state)
    for way in ("mv deep moved", "mv deep/deeper moved", "mv deep/deeper/state moved"):
        assert "Device or resource busy" in (await within(sandbox, way)).stderr
    assert (await within(sandbox, "grep -r secret .")).stdout == ""
    assert (state / "token").read_text() == "the secret"


async def test_a_hidden_folder_is_covered_however_it_is_reached(folder: Path, tmp_path: Path) -> None:
    state = secret_in(folder / "state")
    (folder / "link").symlink_to("state/token")
    (folder / "absolute").symlink_to(state)
    (tmp_path / "way").symlink_to(folder)
    sandbox = await probed(folder, tmp_path / "way" / "state")
    finished = await within(sandbox, f"cat link absolute/token {state}/token state/../state/token")
    assert finished.stdout == "" and finished.exit_code == 1


async def test_links_do_not_lead_out(sandbox: Sandbox, folder: Path, tmp_path: Path) -> None:
    outside = secret_in(tmp_path / "outside")
    (folder / "link").symlink_to(outside / "token")
    (folder / "root").symlink_to("/proc/1/root")
    finished = await within(sandbox, f"cat link root{outside}/token ../private/ws/../../outside/token; ls root/etc")
    assert "the secret" not in finished.stdout and "shadow" not in finished.stdout


async def test_hard_links_to_the_system_can_not_be_made(sandbox: Sandbox, folder: Path) -> None:
    finished = await within(sandbox, "ln /usr/bin/env here; ln /etc/passwd there")
    assert finished.exit_code != 0 and os.listdir(folder) == []


def make_repository(folder: Path) -> None:
    for name in ("hooks", "objects", "refs"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text("[core]\n")
    for path in (folder / ".git", *(folder / ".git").iterdir()):
        owned_by_commands(path)


async def test_git_hooks_and_settings_are_read_only_and_the_rest_of_git_works(folder: Path) -> None:
    make_repository(folder)
    sandbox = await probed(folder)
    for command in (
        "echo evil >.git/hooks/pre-commit",
        "echo evil >>.git/config",
        "git config core.pager evil",
        "mv .git other",
        "mv .git/hooks other",
        "rm -r .git/hooks",
        "rm .git/commondir",
        "echo ../evil >.git/commondir",
    ):
        assert (await within(sandbox, command)).exit_code != 0, command
    assert (folder / ".git" / "config").read_text() == "[core]\n"
    assert list((folder / ".git" / "hooks").iterdir()) == []
    assert (await within(sandbox, "touch a && git add a && git status --short")).stdout == "A  a\n"


async def test_hooks_can_not_be_planted_in_a_repository_that_has_no_folder_for_them(folder: Path) -> None:
    (folder / ".git").mkdir()
    owned_by_commands(folder / ".git")
    sandbox = await probed(folder)
    finished = await within(sandbox, "echo evil >.git/hooks/pre-commit || mkdir -p .git/hooks/x")
    assert finished.exit_code != 0
    assert list((folder / ".git" / "hooks").iterdir()) == []


@pytest.mark.parametrize("removed", [(), ("config",)])
async def test_no_file_that_a_command_adds_makes_the_persons_git_run_a_program(
    folder: Path, removed: tuple[str, ...]
) -> None:
    git(folder, "init", "-q")
    for name in removed:
        (folder / ".git" / name).unlink()
    all_owned_by_commands(folder)
    sandbox = await probed(folder)
    await within(
        sandbox,
        "mkdir -p evil/objects evil/refs; cp .git/HEAD evil/; "
        "git config -f evil/config core.repositoryformatversion 0; "
        f"git config -f evil/config core.fsmonitor 'touch {folder}/ran'; "
        "echo ../evil >.git/commondir; cp evil/config .git/config",
    )
    assert (folder / "evil" / "config").exists()
    git(folder, "status")
    assert not (folder / "ran").exists()
    assert (await within(sandbox, "touch a && git add a && git status --short -- a")).stdout == "A  a\n"
    git(folder, "gc", "-q")


async def test_a_repository_with_its_work_tree_elsewhere_keeps_it(folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / "files").mkdir()
    git(folder, "config", "core.worktree", "../files")
    all_owned_by_commands(folder)
    await within(await probed(folder), "true")
    assert git(folder, "rev-parse", "--show-toplevel").strip() == str(folder / "files")


async def test_settings_and_hooks_of_submodules_are_read_only(folder: Path) -> None:
    module = folder / ".git" / "modules" / "libs" / "one"
    git(folder, "init", "-q")
    git(folder, "init", "-q", "--bare", str(module))
    all_owned_by_commands(folder)
    before = (module / "config").read_text()
    sandbox = await probed(folder)
    for command in (
        "echo evil >>.git/modules/libs/one/config",
        "echo evil >.git/modules/libs/one/hooks/pre-commit",
        "mv .git/modules/libs other",
    ):
        assert (await within(sandbox, command)).exit_code != 0, command
    assert (module / "config").read_text() == before


def all_owned_by_commands(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        owned_by_commands(path)


def git(folder: Path, *arguments: str) -> str:
    """Return what git says outside of the sandbox, as a person runs it."""
    line = ("git", "-c", "safe.directory=*", "-C", str(folder), *arguments)
    trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    ran = subprocess.run(line, capture_output=True, text=True, env=os.environ | trusted, check=True)
    return ran.stdout + ran.stderr


async def test_the_git_file_of_a_worktree_is_read_only(folder: Path) -> None:
    (folder / ".git").write_text("gitdir: elsewhere\n")
    owned_by_commands(folder / ".git")
    finished = await within(await probed(folder), "echo gitdir: evil >.git || rm .git || mv .git x")
    assert finished.exit_code != 0
    assert (folder / ".git").read_text() == "gitdir: elsewhere\n"


# What can be done


async def test_files_made_inside_are_in_the_workspace(sandbox: Sandbox, folder: Path) -> None:
    finished = await within(sandbox, f"pwd; echo one >a.txt; mkdir d; echo two >{folder}/d/b.txt; echo x >/tmp/scratch")
    assert (finished.exit_code, finished.stdout) == (0, "/workspace\n")
    assert (folder / "a.txt").read_text() == "one\n" and (folder / "d" / "b.txt").read_text() == "two\n"


async def test_nothing_but_the_workspace_and_scratch_folders_can_be_written(sandbox: Sandbox) -> None:
    for place in ("/usr/x", "/x", "/etc/x", "/dev/x", "/etc/passwd", "/usr/bin/env", "/home"):
        assert (await within(sandbox, f"echo x >>{place}")).exit_code != 0, place
    assert (await within(sandbox, "echo x >/tmp/x && echo x >/dev/shm/x && echo x >/dev/null")).exit_code == 0


async def test_scratch_folders_are_empty_for_each_command(sandbox: Sandbox) -> None:
    await within(sandbox, "echo x >/tmp/x; echo x >/dev/shm/x")
    assert (await within(sandbox, "ls /dev/shm; ls /tmp | grep -cx x")).stdout == "0\n"


async def test_the_usual_programs_work(sandbox: Sandbox) -> None:
    finished = await within(
        sandbox, "whoami; echo b a | tr ' ' '\\n' | sort | awk '{print NR, $1}'; python3 -c 'print(1)'"
    )
    assert (finished.stdout, finished.stderr) == ("sandbox\n1 a\n2 b\n1\n", "")


async def test_a_workspace_whose_real_path_is_taken_inside_is_reached_by_workspace_alone() -> None:
    place = Path("/usr/local")
    if not os.access(place, os.W_OK):
        pytest.skip("only a person who may write in /usr/local can have a workspace there")
    folder = Path(tempfile.mkdtemp(dir=place))
    try:
        owned_by_commands(folder)
        sandbox = await probed(folder, secret_in(folder / "state"))
        assert (await within(sandbox, "echo x >a")).exit_code == 0
        assert "secret" not in (await within(sandbox, f"cat state/token {folder}/state/token")).stdout
    finally:
        shutil.rmtree(folder)


async def test_a_hidden_folder_in_usr_is_covered(folder: Path) -> None:
    sandbox = await probed(folder, Path("/usr/share/doc"))
    assert (await within(sandbox, "ls /usr/share/doc")).stdout == ""


# Limits


async def test_the_number_of_processes_is_bounded(tmp_path: Path) -> None:
    own = tmp_path / "own"
    create_workspace(own, uid=61_111)
    sandbox = await probed(own, uid=61_111)  # not the user whose processes count for the tests beside this one
    bomb = (
        "import os, signal\n"
        "started = 0\n"
        "try:\n"
        "    while started < 1000:\n"
        "        if os.fork() == 0:\n"
        "            signal.pause()\n"
        "        started += 1\n"
        "except OSError:\n"
        "    print(started)"
    )
    finished = await python(sandbox, bomb)
    assert 0 < int(finished.stdout) <= 256


async def test_memory_is_bounded(sandbox: Sandbox) -> None:
    assert "MemoryError" in (await python(sandbox, "bytearray(3 * 1024**3)")).stderr


async def test_file_size_scratch_space_open_files_and_cpu_time_are_bounded(folder: Path) -> None:
    sandbox = await probed(
        folder, limits=CommandLimits(cpu_seconds=1, file_size=1_000_000, open_files=20, scratch=500_000)
    )
    assert (await within(sandbox, "head -c 2000000 /dev/zero >big")).exit_code != 0
    assert (folder / "big").stat().st_size <= 1_000_000
    assert "No space" in (await within(sandbox, "head -c 600000 /dev/zero >/tmp/big")).stderr
    assert "Too many open files" in (await python(sandbox, "files = [open('/dev/null') for _ in range(30)]")).stderr
    assert (await within(sandbox, "while :; do :; done")).exit_code == 128 + 9


async def test_no_new_namespace_and_no_right_can_be_had(sandbox: Sandbox) -> None:
    finished = await within(sandbox, "unshare -U true; unshare -r true; mount -t tmpfs x /tmp; umount /tmp")
    assert finished.exit_code != 0 and finished.stderr.count("\n") >= 4
    status = (await within(sandbox, "grep -E 'Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status")).stdout
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    assert "CapPrm:\t0000000000000000" in status and "CapEff:\t0000000000000000" in status


async def test_a_clone_into_a_new_user_namespace_is_refused(sandbox: Sandbox) -> None:
    code = (
        "import ctypes, platform\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "clone = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n"
        "print(libc.syscall(clone, 0x10000000 | 17, 0, 0, 0, 0), ctypes.get_errno())\n"
        "print(libc.syscall(435, 0, 0), ctypes.get_errno())\n"
        "print(libc.syscall(425, 1, 0), ctypes.get_errno())"
    )
    assert (await python(sandbox, code)).stdout == "-1 1\n-1 38\n-1 1\n"


def test_a_machine_that_is_not_known_has_no_filter_and_known_ones_have_their_own() -> None:
    assert system_call_filter("riscv64") is None
    assert system_call_filter("x86_64") != system_call_filter("aarch64")


async def test_a_machine_without_a_filter_is_told_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await probed(folder)
    machine = os.uname()
    monkeypatch.setattr("os.uname", lambda: os.uname_result((*machine[:4], "riscv64")))
    sandbox = await probe(Sandbox(folder))
    if os.geteuid() == 0:  # nothing else closes user namespaces then, and the self-test has seen it
        assert "new user namespaces" in sandbox.report.reason
    else:
        assert "no system call filter is known for 'riscv64'" in sandbox.report.warning


# Nothing is left behind


async def test_at_the_limit_processes_in_sessions_of_their_own_are_killed(sandbox: Sandbox) -> None:
    mark = new_mark()
    finished = await within(sandbox, f"setsid sleep {mark} & (setsid sleep {mark} &) ; sleep {mark}", timeout=1)
    assert finished.timed_out
    assert is_gone(mark)
    assert "Z" not in states_of_children()


async def test_background_processes_end_with_their_command(sandbox: Sandbox) -> None:
    mark = new_mark()
    finished = await within(sandbox, f"setsid sleep {mark} & nohup sleep {mark} & echo done")
    assert (finished.stdout, finished.timed_out) == ("done\n", False)
    assert is_gone(mark)


async def test_a_cancel_leaves_nothing(sandbox: Sandbox) -> None:
    mark = new_mark()
    reports = Reports()
    with sandbox.launch(("sh", "-c", f"setsid sleep {mark} & echo ready; sleep {mark}")) as launch:
        task = asyncio.create_task(run_child(launch, timeout=LIMIT, progress=reports))
        await reports.until("ready")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert is_gone(mark)


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 5, 8, 13])
async def test_a_command_that_is_stopped_while_its_sandbox_is_being_made_leaves_nothing(
    sandbox: Sandbox, milliseconds: int
) -> None:
    mark = new_mark()
    assert (await within(sandbox, f"sleep {mark}", timeout=milliseconds / 1000)).timed_out
    assert is_gone(mark)


async def test_the_death_of_the_gateway_leaves_nothing(sandbox: Sandbox, folder: Path) -> None:
    mark = new_mark()
    gateway = await another_gateway(folder, f"setsid sleep {mark} & echo ready; sleep {mark}")
    assert gateway.stdout is not None
    while b"ready" not in await asyncio.wait_for(gateway.stdout.readline(), LIMIT):
        assert not gateway.stdout.at_eof()
    left = processes_with(mark)
    gateway.kill()
    assert await asyncio.to_thread(all_end, left)
    await gateway.wait()
    assert is_gone(mark)


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 4, 5, 6, 8, 10, 15])
async def test_the_death_of_the_gateway_while_a_sandbox_is_being_made_leaves_nothing(
    sandbox: Sandbox, folder: Path, milliseconds: int
) -> None:
    mark = new_mark()
    gateway = await another_gateway(folder, f"setsid sleep {mark} & sleep {mark}")
    assert gateway.stdout is not None
    assert b"begins" in await asyncio.wait_for(gateway.stdout.readline(), LIMIT)
    await asyncio.sleep(milliseconds / 1000)
    gateway.kill()
    await gateway.wait()
    while left := processes_with(mark):
        assert await asyncio.to_thread(all_end, left)


async def another_gateway(folder: Path, command: str) -> asyncio.subprocess.Process:
    """A process that runs the command in a sandbox of this folder, says when it begins, and prints the progress."""
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from handspan.tools.processes import run_child\n"
        "from handspan.tools.sandbox import Sandbox\n"
        "async def main():\n"
        "    sandbox = Sandbox(Path(sys.argv[1]))\n"
        "    await sandbox.ready()\n"
        "    print('begins', flush=True)\n"
        "    with sandbox.launch(('sh', '-c', sys.argv[2])) as launch:\n"
        "        await run_child(launch, timeout=60, progress=lambda report: print(report, flush=True))\n"
        "asyncio.run(main())\n"
    )
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(folder), command), stdout=asyncio.subprocess.PIPE
    )


# Without root


async def test_without_root_the_walls_are_those_of_a_user_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sesame")
    if os.geteuid() != 0:
        pytest.skip("all other tests show this already when they run without root")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        os.chown(folder, 61234, 61234)
        (folder / "state").mkdir()
        (folder / "state" / "token").write_text("the secret")
        sandbox = Sandbox(folder, SandboxReport(True, "by hand"), hidden=[folder / "state"], as_root=False)
        finished = await as_another_user(
            sandbox,
            "echo x >a; id -u; cat state/token /etc/shadow; touch /x /tmp/x; unshare -U true; grep -c : /proc/net/dev; "
            "grep -c SECRET /proc/1/environ; i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); done",
        )
        if not finished.started:
            pytest.skip(f"no user namespaces here: {finished.stderr}")
        assert finished.stdout == "61234\n1\n0\n"
        for complaint in ("state/token", "/etc/shadow", "'/x'", "unshare", "fork"):
            assert complaint in finished.stderr, finished.stderr
        assert (folder / "a").read_text() == "x\n"
        assert sandbox.file_owner is None
    finally:
        shutil.rmtree(folder)


async def as_another_user(sandbox: Sandbox, command: str) -> ChildResult:
    with sandbox.launch(("sh", "-c", command)) as launch:
        user = ("setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups", "--")
        argv = (shutil.which("setpriv") or "setpriv", *user[1:], *launch.argv)
        return await run_child(Launch(argv, launch.cwd, launch.env, launch.fds, launch.sandbox), timeout=LIMIT)


@pytest.fixture(autouse=True)
def no_descriptor_is_lost() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # the event loop of the test may still be open


# Memory of all processes together

EAT = """
import subprocess, sys
eat = "import sys; block = bytearray(b'x') * int(sys.argv[1]); print('full', flush=True); sys.stdin.read()"
each = [subprocess.Popen([sys.executable, "-c", eat, sys.argv[1]], stdin=-1, stdout=-1) for _ in range(4)]
print(sum(one.stdout.readline() == b"full\\n" for one in each))
"""


async def eaten(sandbox: Sandbox, megabytes: int) -> str:
    """How many of four processes of one command could take so much memory each."""
    with sandbox.launch(("python3", "-c", EAT, str(megabytes * 1024**2))) as launch:
        return (await run_child(launch, timeout=LIMIT)).stdout.strip()


async def test_all_processes_of_commands_together_have_a_bound_on_memory(folder: Path) -> None:
    sandbox = await probed(folder, limits=CommandLimits(all_memory=400 * 1024**2))
    if "memory of all commands" not in sandbox.report.reason:
        pytest.skip(f"no control group can be made here: {sandbox.report.reason}")
    assert "memory of all commands: 400 MiB" in sandbox.report.reason
    assert await eaten(sandbox, 40) == "4"
    assert await eaten(sandbox, 300) in ("0", "1", ""), "each alone may have so much, and all together may not"
    assert (await within(sandbox, "echo works")).stdout == "works\n"


async def test_without_a_control_group_that_is_said_and_commands_are_ended_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_group, "_ROOT", folder / "missing")
    sandbox = await probed(folder)
    assert "no bound for all (no control group); they are ended first" in sandbox.report.reason
    shown = await within(
        sandbox, "cat /proc/1/oom_score_adj /proc/self/oom_score_adj; sh -c 'cat /proc/$$/oom_score_adj'"
    )
    assert shown.stdout.split() == ["1000"] * 3


async def test_a_control_group_goes_with_its_sandbox_and_one_of_a_killed_gateway_with_the_next(folder: Path) -> None:
    group = memory_group.open_memory_group(1024**3)
    if group is None:
        pytest.skip("no control group can be made here")
    parent = group._folder.parent
    old = parent / "handspan-4194305-0"  # no process has such an id
    old.mkdir()
    again = memory_group.open_memory_group(0)
    assert again is not None and again.limit > 0 and not old.exists() and group._folder.exists()
    for one in (group, again):
        one.close()
        assert not one._folder.exists()
