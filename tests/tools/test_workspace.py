"""SPEC S1: file access stays in the workspace, and what is hidden in it stays hidden."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from handspan.core.context import Deadline
from handspan.core.errors import ConfigError, ToolError
from handspan.tools import directories
from handspan.tools import workspace as workspace_module
from handspan.tools.directories import OpenBeneath, choose_opener, open_by_openat2, open_by_walk
from handspan.tools.workspace import REWRITE_LIMIT, Workspace

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to somebody else")


def _has_openat2() -> bool:
    descriptor = os.open("/", os.O_RDONLY)
    try:
        return choose_opener(descriptor) is open_by_openat2
    finally:
        os.close(descriptor)


BOTH_WAYS = [
    pytest.param(
        open_by_openat2,
        id="openat2",
        marks=pytest.mark.skipif(not _has_openat2(), reason="this kernel or container has no openat2"),
    ),
    pytest.param(open_by_walk, id="walk"),
    pytest.param(None, id="macOS"),
]
"""The ways to open a file; None: the way that is chosen where the names that only Linux has are missing."""


def prepare_way(chosen: OpenBeneath | None, without_linux: pytest.MonkeyPatch) -> OpenBeneath:
    """The way of this entry of `BOTH_WAYS`. For macOS the Linux names are taken away until the test ends."""
    if chosen is not None:
        return chosen
    for name in ("O_PATH", "O_TMPFILE", "memfd_create", "pidfd_open"):
        without_linux.delattr(os, name)
    without_linux.setattr(directories, "HAS_PATH_FLAG", False)
    for module in (directories, workspace_module):
        without_linux.setattr(module, "DIRECTORY", os.O_RDONLY | os.O_DIRECTORY)
    return choose_opener(-1)


@pytest.fixture(params=BOTH_WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OpenBeneath:
    return prepare_way(request.param, monkeypatch)


@pytest.fixture
def files(workspace: Path, way: OpenBeneath) -> Iterator[Workspace]:
    with Workspace(workspace, opener=way) as opened:
        yield opened


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the workspace."""
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "secret.txt"
    file.write_text("secret")
    return file


def read(files: Workspace, path: str) -> bytes:
    with files.open_file(path) as file:
        return file.read(0, file.size)


def names(files: Workspace, path: str = ".") -> list[str]:
    return [entry.name for entry in files.entries(path, 1000).entries]


def do_all(files: Workspace, path: str) -> Iterator[Callable[[], object]]:
    """Every way to touch a path."""
    yield lambda: read(files, path)
    yield lambda: files.write(path, b"new")
    yield lambda: files.append(path, b"new")
    yield lambda: files.edit(path, lambda data: b"new", 1000)
    yield lambda: files.entries(path, 10)


def refusals(files: Workspace, path: str) -> list[str]:
    """The code of each way to touch a path, all of which fail."""
    codes: list[str] = []
    for touch in do_all(files, path):
        with pytest.raises(ToolError) as caught:
            touch()
        codes.append(caught.value.code)
    return codes


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What leads out


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.txt",
        "../outside/missing.txt",
        "../workspace-evil/a.txt",
        "sub/../../outside/secret.txt",
        "missing/../../outside/secret.txt",
        "./././../outside/secret.txt",
        "//etc/passwd",
        "/etc/passwd",
        "/etc/no-such-file",
        "/",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/dev/zero",
        "to_file",
        "to_folder/secret.txt",
        "to_folder/new.txt",
        "to_nothing",
        "to_parent/outside/secret.txt",
        "to_root/etc/passwd",
        "to_link",
        "to_proc/etc/passwd",
        "inside/../../outside/secret.txt",
    ],
)
def test_whatever_leads_out_is_an_invalid_path_and_changes_nothing(
    files: Workspace, workspace: Path, secret: Path, path: str
) -> None:
    evil = workspace.with_name("workspace-evil")
    evil.mkdir()
    (evil / "a.txt").write_text("secret")
    (workspace / "sub").mkdir()
    (workspace / "to_file").symlink_to(secret)
    (workspace / "to_folder").symlink_to("../outside")
    (workspace / "to_nothing").symlink_to("../outside/to-be-made.txt")
    (workspace / "to_parent").symlink_to("..")
    (workspace / "to_root").symlink_to("/")
    (workspace / "to_link").symlink_to("to_file")
    (workspace / "to_proc").symlink_to("/proc/self/root")
    (workspace / "inside").symlink_to("sub")
    before = tree(workspace.parent)
    assert set(refusals(files, path)) == {"invalid_path"}
    assert tree(workspace.parent) == before


def test_the_answer_does_not_tell_what_exists_outside(files: Workspace, workspace: Path, secret: Path) -> None:
    (workspace / "link").symlink_to(secret.parent)
    answers = set()
    for path in ("../outside/secret.txt", "../outside/nothing.txt", "link/secret.txt", "link/nothing.txt"):
        with pytest.raises(ToolError) as caught:
            read(files, path)
        answers.add(caught.value.message.replace(path, "PATH"))
    assert len(answers) == 1
    assert "outside/" not in answers.pop()


def test_a_way_round_over_the_outside_depends_on_its_text_alone(
    files: Workspace, workspace: Path, secret: Path, tmp_path: Path
) -> None:
    (workspace / "a.txt").write_text("mine")
    (tmp_path / "link").symlink_to(secret.parent / "deeper" / "still")
    for between in ("outside", "missing", "link"):
        assert read(files, f"../{between}/../workspace/a.txt") == b"mine"


def test_look_alikes_of_dots_and_slashes_are_plain_names(files: Workspace, workspace: Path, secret: Path) -> None:
    for path in (
        "..\\outside\\secret.txt",
        "%2e%2e%2foutside",
        "．．／outside",
        "~",
        "$HOME",
        "C:\\x",
        "file:secret",
        "...",
        "‥",
    ):
        files.write(path, path.encode())
        assert read(files, path) == path.encode()
        assert (workspace / path).is_file()
    assert secret.read_text() == "secret"


# What stays inside


@pytest.mark.parametrize(
    "path",
    [
        "a.txt",
        "./a.txt",
        "sub/../a.txt",
        "sub//..//a.txt",
        "missing/../a.txt",
        "to_a",
        "sub/up",
        "sub/absolute",
        "folder/a.txt",
    ],
)
def test_what_stays_inside_works(files: Workspace, workspace: Path, path: str) -> None:
    (workspace / "sub").mkdir()
    (workspace / "a.txt").write_text("mine")
    (workspace / "to_a").symlink_to("a.txt")
    (workspace / "sub" / "up").symlink_to("../to_a")
    (workspace / "sub" / "absolute").symlink_to(workspace / "a.txt")
    (workspace / "folder").symlink_to("sub/..")
    assert read(files, path) == b"mine"
    files.write(path, b"new")
    assert (workspace / "a.txt").read_bytes() == b"new"
    assert (workspace / "to_a").is_symlink()


def test_an_absolute_path_below_the_workspace_works(files: Workspace, workspace: Path) -> None:
    files.write(str(workspace / "deep" / "a.txt"), b"mine")
    assert read(files, f"{workspace}/deep/../deep/a.txt") == b"mine"
    assert names(files, str(workspace)) == ["deep"]


def test_a_workspace_behind_a_link_takes_both_of_its_names(workspace: Path, tmp_path: Path, way: OpenBeneath) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(workspace)
    (workspace / "a.txt").write_text("mine")
    with Workspace(alias, opener=way) as files:
        assert files.path == workspace.resolve()
        assert read(files, str(alias / "a.txt")) == b"mine"
        assert read(files, str(workspace / "a.txt")) == b"mine"


def test_a_dangling_link_that_stays_inside_is_written_through(files: Workspace, workspace: Path) -> None:
    (workspace / "link").symlink_to("target.txt")
    files.write("link", b"mine")
    assert (workspace / "target.txt").read_bytes() == b"mine"
    assert (workspace / "link").is_symlink()


# What is hidden


@pytest.fixture
def hiding(workspace: Path, way: OpenBeneath) -> Iterator[Workspace]:
    """A workspace that contains the gateway's own state."""
    (workspace / "state" / "deep").mkdir(parents=True)
    (workspace / "state" / "deep" / "tokens.db").write_text("secret")
    (workspace / "handspan.toml").write_text("secret")
    (workspace / "Ünder").write_text("secret")
    (workspace / "a.txt").write_text("mine")
    hidden = [workspace / "state", workspace / "handspan.toml", workspace / "Ünder", workspace / "later.db"]
    with Workspace(workspace, hidden, opener=way) as opened:
        yield opened


@pytest.mark.parametrize(
    "path",
    [
        "state",
        "state/deep",
        "state/deep/tokens.db",
        "state/new.txt",
        "a.txt/../state/deep/tokens.db",
        "STATE/deep/tokens.db",
        "handspan.toml",
        "Handspan.TOML",
        "U\u0308nder",
        "ünder",
        "link/deep/tokens.db",
        "link/new.txt",
        "to_file",
        "hard",
        "later.db",
        "later.db/x",
    ],
)
def test_what_is_hidden_is_out_of_reach_under_every_name(hiding: Workspace, workspace: Path, path: str) -> None:
    (workspace / "link").symlink_to("state")
    (workspace / "to_file").symlink_to(workspace / "state" / "deep" / "tokens.db")
    (workspace / "hard").hardlink_to(workspace / "handspan.toml")
    before = tree(workspace)
    assert set(refusals(hiding, path)) == {"invalid_path"}
    assert tree(workspace) == before


def test_an_absolute_path_to_what_is_hidden_is_refused(hiding: Workspace, workspace: Path) -> None:
    assert set(refusals(hiding, str(workspace / "state" / "deep" / "tokens.db"))) == {"invalid_path"}


def test_what_is_hidden_is_not_listed_or_counted(hiding: Workspace, workspace: Path) -> None:
    (workspace / "hard").hardlink_to(workspace / "handspan.toml")
    listing = hiding.entries(".", 100)
    assert [entry.name for entry in listing.entries] == ["a.txt"]
    assert listing.total == 1


def test_the_rest_of_a_workspace_with_hidden_things_works(hiding: Workspace) -> None:
    hiding.write("state.txt", b"mine")
    hiding.write("sub/state", b"mine")
    assert read(hiding, "sub/state") == read(hiding, "state.txt") == read(hiding, "a.txt") == b"mine"


def test_a_hidden_link_and_what_it_leads_to_are_hidden(workspace: Path, way: OpenBeneath) -> None:
    (workspace / "real.toml").write_text("secret")
    (workspace / "handspan.toml").symlink_to("real.toml")
    with Workspace(workspace, [workspace / "handspan.toml"], opener=way) as files:
        assert names(files) == []
        assert set(refusals(files, "handspan.toml") + refusals(files, "real.toml")) == {"invalid_path"}


def test_a_hard_link_to_a_hidden_file_elsewhere_is_refused(workspace: Path, secret: Path, way: OpenBeneath) -> None:
    (workspace / "hard").hardlink_to(secret)
    with Workspace(workspace, [secret], opener=way) as files:
        assert set(refusals(files, "hard")) == {"invalid_path"}


def test_a_workspace_inside_of_a_hidden_folder_works(workspace: Path, way: OpenBeneath) -> None:
    with Workspace(workspace, [workspace.parent], opener=way) as files:
        files.write("a.txt", b"mine")
        assert names(files) == ["a.txt"]


def test_a_workspace_that_is_hidden_itself_is_a_configuration_error(workspace: Path) -> None:
    with pytest.raises(ConfigError, match="Choose another"):
        Workspace(workspace, [workspace])


# Text that is no path, and things that are no files


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("\0", "NUL"),
        ("\ud800.txt", "surrogate"),
        ("\udcff.txt", "surrogate"),
        ("x" * 256, "256"),
        ("é" * 128, "256"),
        ("x/" * 2048, "4096"),
        ("x" * 100_000, "100000"),
    ],
)
def test_text_that_can_be_no_path_is_refused_with_the_reason(files: Workspace, path: str, word: str) -> None:
    for touch in do_all(files, path):
        with pytest.raises(ToolError, match=word) as caught:
            touch()
        assert caught.value.code == "invalid_path"
        assert len(caught.value.message) < 500


def test_the_longest_names_work(files: Workspace, workspace: Path) -> None:
    for path in ("x" * 255, "é" * 127, "d" * 255 + "/" + "f" * 255):
        files.write(path, b"mine")
        files.append(path, b"!")
        assert read(files, path) == b"mine!"
    assert not [name for name in names(files) if name.startswith(".handspan")]


def test_deep_nesting_works_up_to_the_longest_path(files: Workspace, workspace: Path) -> None:
    path = "d/" * 2000 + "file"
    try:
        files.write(path, b"mine")
        assert read(files, path) == b"mine"
        assert names(files, "d/" * 2000) == ["file"]
    finally:
        # Python's own rmtree calls itself for every level.
        subprocess.run(["rm", "-rf", workspace / "d"], check=True, timeout=30)


def test_links_that_grow_the_path_beyond_all_bounds_are_refused(files: Workspace, workspace: Path) -> None:
    (workspace / "long").symlink_to("y/" * 2000)
    assert set(refusals(files, "long/" + "z/" * 100 + "a")) == {"invalid_path"}
    assert tree(workspace) == {}


@pytest.mark.parametrize("path", ["loop", "first", "first/x", "loop/../a"])
def test_links_in_a_circle_are_refused(files: Workspace, workspace: Path, path: str) -> None:
    (workspace / "loop").symlink_to("loop")
    (workspace / "first").symlink_to("second")
    (workspace / "second").symlink_to("first")
    assert set(refusals(files, path)) == {"invalid_path"}


def test_a_pipe_a_socket_and_a_device_are_refused_without_blocking(files: Workspace, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    special = ["pipe", "socket"]
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(workspace / "socket"))
        if os.geteuid() == 0:
            os.mknod(workspace / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            special.append("zero")
        for path in special:
            assert set(refusals(files, path)) == {"execution_failed"}
        assert {entry.kind for entry in files.entries(".", 10).entries} == {"other"}


def test_a_directory_is_no_file_and_a_file_is_no_directory(files: Workspace, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "a.txt").write_text("mine")
    for path in ("folder", ".", "folder/"):
        with pytest.raises(ToolError, match="is a directory"):
            read(files, path)
        with pytest.raises(ToolError, match="is a directory"):
            files.write(path, b"new")
    with pytest.raises(ToolError, match="is a directory"):
        files.write("new/", b"new")
    with pytest.raises(ToolError, match="Not a directory"):
        files.entries("a.txt", 10)
    with pytest.raises(ToolError, match="Not a directory"):
        files.write("a.txt/b", b"new")
    assert tree(workspace) == {"a.txt": b"mine"}


# What the operating system refuses


@pytest.mark.parametrize("path", ["a.txt/", "a.txt//", "a.txt/.", "b/../a.txt/"])
def test_a_path_that_ends_like_a_directory_names_no_file(files: Workspace, workspace: Path, path: str) -> None:
    (workspace / "a.txt").write_text("x")
    (workspace / "b").mkdir()
    with pytest.raises(ToolError, match="Not a directory") as caught, files.open_file(path):
        pass
    assert caught.value.code == "execution_failed"
    with pytest.raises(ToolError):
        files.write(path, b"y")
    assert (workspace / "a.txt").read_text() == "x"


def test_a_missing_file_is_told_by_its_path(files: Workspace) -> None:
    for touch in (lambda: read(files, "sub/none.txt"), lambda: files.edit("sub/none.txt", bytes, 10)):
        with pytest.raises(ToolError) as caught:
            touch()
        assert (caught.value.code, caught.value.message) == ("file_not_found", "File not found: sub/none.txt")


def test_a_read_only_file_stays_as_it_is(files: Workspace, workspace: Path) -> None:
    (workspace / "a.txt").write_text("mine")
    (workspace / "a.txt").chmod(0o444)
    for change in (files.write, files.append):
        with pytest.raises(ToolError, match="read-only") as caught:
            change("a.txt", b"new")
        assert caught.value.code == "execution_failed"
    assert tree(workspace) == {"a.txt": b"mine"}


NOBODY = """
import os, sys
from pathlib import Path
from handspan.core.errors import ToolError
from handspan.tools import directories
from handspan.tools import workspace as workspace_module
from handspan.tools.workspace import Workspace
files = Workspace(Path(sys.argv[1]), opener=getattr(directories, sys.argv[2]))
files.entries(".", 10)  # what is loaded late is loaded: nobody may not be allowed to read Python's own library
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
def attempt(do):
    try:
        do()
    except ToolError as error:
        print(error.code, error.message)
attempt(lambda: files.open_file("closed").__enter__())
attempt(lambda: files.write("closed", b"new"))
attempt(lambda: files.write("new", b"new"))
attempt(lambda: files.write("sub/new", b"new"))
attempt(lambda: files.entries("locked", 10))
"""


def test_missing_rights_are_told_with_the_cause(workspace: Path, way: OpenBeneath) -> None:
    (workspace / "closed").write_text("mine")
    (workspace / "closed").chmod(0)
    (workspace / "locked").mkdir(mode=0)
    workspace.chmod(0o555)
    try:
        done = run_script(NOBODY, str(workspace), way.__name__)
    finally:
        workspace.chmod(0o755)
    lines = done.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("execution_failed ") for line in lines)
    assert all("Permission denied" in line or "read-only" in line for line in lines)
    assert tree(workspace) == {"closed": b"mine"}


def run_script(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], check=True, timeout=50, stdout=subprocess.PIPE, encoding="utf-8"
    )
    return done.stdout


FULL = """
import resource, sys
from pathlib import Path
from handspan.core.errors import ToolError
from handspan.tools.workspace import Workspace
files = Workspace(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for change in (files.write, files.append):
    try:
        change("a.txt", b"x" * 2000)
    except ToolError as error:
        print(error.code, error.message)
"""


def test_a_write_beyond_the_limit_of_the_system_leaves_the_old_file(workspace: Path) -> None:
    (workspace / "a.txt").write_text("mine")
    lines = run_script(FULL, str(workspace)).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("execution_failed 'a.txt': File too large") for line in lines)
    assert tree(workspace) == {"a.txt": b"mine"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=20", "handspan-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, stderr=subprocess.DEVNULL, timeout=30).returncode != 0:
        pytest.skip("a small disk can't be mounted here: that needs root and the right to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=30)


def test_a_full_disk_leaves_the_old_file_and_no_rest(small_disk: Path, way: OpenBeneath) -> None:
    with Workspace(small_disk, opener=way) as files:
        files.write("a.txt", b"mine")
        for change in (files.write, files.append):
            with pytest.raises(ToolError, match="No space left on device") as caught:
                change("a.txt", b"x" * 1_000_000)
            assert caught.value.code == "execution_failed"
        with pytest.raises(ToolError, match="No space left on device"):
            files.write("d/" * 30 + "b.txt", b"x")
        with pytest.raises(ToolError, match="No space left on device"):
            files.write("d/d/b.txt", b"x" * 1_000_000)
        assert os.listdir(small_disk) == ["a.txt"]
        assert (small_disk / "a.txt").read_bytes() == b"mine"
        files.write("a.txt", b"x" * 100_000)
        assert len(read(files, "a.txt")) == 100_000


def test_a_read_only_disk_is_told_with_the_cause(small_disk: Path, way: OpenBeneath) -> None:
    with Workspace(small_disk, opener=way) as files:
        files.write("a.txt", b"mine")
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, timeout=30)
        with pytest.raises(ToolError, match="Read-only file system") as caught:
            files.write("b.txt", b"new")
        assert caught.value.code == "execution_failed"
        with pytest.raises(ToolError, match="read-only"):
            files.write("a.txt", b"new")
        assert read(files, "a.txt") == b"mine"


def test_a_vanished_workspace_is_told_as_such(files: Workspace, workspace: Path) -> None:
    files.write("a.txt", b"mine")
    shutil.rmtree(workspace)
    for touch in do_all(files, "a.txt"):
        with pytest.raises(ToolError, match="workspace directory is gone") as caught:
            touch()
        assert caught.value.code == "execution_failed"
    workspace.mkdir()
    with pytest.raises(ToolError, match="workspace directory is gone"):
        read(files, "a.txt")


def test_a_closed_workspace_answers_with_an_error(workspace: Path) -> None:
    files = Workspace(workspace)
    files.close()
    files.close()
    assert set(refusals(files, "a.txt")) == {"execution_failed"}


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("a file")])
def test_a_workspace_that_is_no_directory_is_a_configuration_error(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "none")
    with pytest.raises(ConfigError, match="Create it or choose another"):
        Workspace(tmp_path / "none")


def test_a_call_whose_time_is_over_changes_nothing(files: Workspace, workspace: Path) -> None:
    files.write("a.txt", b"mine")
    over = Deadline(time.monotonic() - 1, "the tool's own limit")
    for touch in (
        lambda: files.write("a.txt", b"new", over),
        lambda: files.append("a.txt", b"new", over),
        lambda: files.edit("a.txt", lambda data: b"new", 100, over),
        lambda: files.entries(".", 10, over),
    ):
        with pytest.raises(ToolError, match="the tool's own limit") as caught:
            touch()
        assert caught.value.code == "timeout"
    assert tree(workspace) == {"a.txt": b"mine"}


# Huge things


def test_a_sparse_file_of_10_gib_is_read_in_parts_only(files: Workspace, workspace: Path) -> None:
    with (workspace / "huge").open("wb") as file:
        file.truncate(10 * 1024**3)
        file.seek(5 * 1024**3)
        file.write(b"middle")
    with files.open_file("huge") as opened:
        assert opened.size == 10 * 1024**3
        assert opened.read(5 * 1024**3, 6) == b"middle"
        assert opened.read(opened.size, 6) == b""
    with pytest.raises(ToolError) as caught:
        files.append("huge", b"x")
    assert caught.value.code == "file_too_large"
    with pytest.raises(ToolError) as caught:
        files.edit("huge", bytes, 1000)
    assert caught.value.code == "file_too_large"
    assert names(files) == ["huge"]


def test_10_mb_are_written_and_appended_to(files: Workspace) -> None:
    content = os.urandom(10_000_000)
    files.write("large", content)
    files.append("large", b"end")
    assert len(content) < REWRITE_LIMIT
    assert read(files, "large") == content + b"end"


def test_a_large_directory_is_listed_up_to_the_limit_and_counted_to_its_end(files: Workspace, workspace: Path) -> None:
    for number in range(5000):
        (workspace / f"{number:04}").touch()
    listing = files.entries(".", 50)
    assert [entry.name for entry in listing.entries] == [f"{number:04}" for number in range(50)]
    assert listing.total == 5000


# How files are written


def test_a_rewritten_file_keeps_its_mode_and_a_new_one_gets_the_usual(files: Workspace, workspace: Path) -> None:
    files.write("script.sh", b"old")
    assert stat.S_IMODE((workspace / "script.sh").stat().st_mode) == 0o666 & ~umask()
    for mode in (0o755, 0o600, 0o666):
        (workspace / "script.sh").chmod(mode)
        files.write("script.sh", b"new")
        assert stat.S_IMODE((workspace / "script.sh").stat().st_mode) == mode
        files.append("script.sh", b"!")
        assert stat.S_IMODE((workspace / "script.sh").stat().st_mode) == mode


def umask() -> int:
    old = os.umask(0o022)
    os.umask(old)
    return old


def test_private_modes_are_kept_to(workspace: Path) -> None:
    with Workspace(workspace, file_mode=0o600, folder_mode=0o700) as files:
        files.write("sub/a.txt", b"mine")
    assert stat.S_IMODE((workspace / "sub").stat().st_mode) == 0o700
    assert stat.S_IMODE((workspace / "sub" / "a.txt").stat().st_mode) == 0o600


def test_a_hard_link_elsewhere_keeps_the_old_content(files: Workspace, workspace: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.txt"
    elsewhere.write_text("theirs")
    for number, change in enumerate((files.write, files.append)):
        name = f"hard{number}"
        (workspace / name).hardlink_to(elsewhere)
        change(name, b"new")
        assert (workspace / name).read_bytes().endswith(b"new")
    assert elsewhere.read_text() == "theirs"


@needs_root
def test_new_things_belong_to_the_file_owner_and_old_ones_to_whom_they_did(workspace: Path, way: OpenBeneath) -> None:
    (workspace / "old").mkdir()
    (workspace / "old" / "mine.txt").write_text("mine")
    os.chown(workspace / "old" / "mine.txt", 1234, 2345)
    (workspace / "old" / "roots.txt").write_text("root's")
    with Workspace(workspace, file_owner=(54321, 54322), opener=way) as files:
        files.write("old/mine.txt", b"new")
        files.append("old/roots.txt", b"new")
        files.write("old/new.txt", b"new")
        files.append("made/deep/new.txt", b"new")

    def owner(name: str) -> tuple[int, int]:
        there = (workspace / name).stat()
        return there.st_uid, there.st_gid

    assert owner("old/mine.txt") == (1234, 2345)
    assert owner("old/roots.txt") == owner("old") == owner(".") == (0, 0)
    assert owner("old/new.txt") == owner("made") == owner("made/deep") == owner("made/deep/new.txt") == (54321, 54322)


def test_an_edit_that_fails_leaves_the_file_and_no_rest(files: Workspace, workspace: Path) -> None:
    files.write("a.txt", b"mine")

    def fail(data: bytes) -> bytes:
        raise ToolError("invalid_arguments", "no")

    with pytest.raises(ToolError, match="no"):
        files.edit("a.txt", fail, 100)
    assert tree(workspace) == {"a.txt": b"mine"}


def test_a_file_that_somebody_else_changed_meanwhile_is_not_overwritten(files: Workspace, workspace: Path) -> None:
    files.write("a.txt", b"mine")

    def change_late(data: bytes) -> bytes:
        (workspace / "a.txt").write_bytes(b"theirs!")
        return b"new"

    def remove_late(data: bytes) -> bytes:
        (workspace / "a.txt").unlink()
        return b"new"

    for change in (change_late, remove_late):
        with pytest.raises(ToolError, match="changed by another program") as caught:
            files.edit("a.txt", change, 100)
        assert caught.value.code == "execution_failed"
    assert tree(workspace) == {}


def test_many_threads_append_and_nothing_is_lost(files: Workspace) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: files.append("log", b"%d\n" % number), range(200)))
    assert sorted(map(int, read(files, "log").split())) == list(range(200))


# Finding the way


def test_openat2_is_replaced_by_the_walk_where_the_kernel_does_not_know_it(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = os.open(workspace, os.O_RDONLY)
    try:
        monkeypatch.setattr(directories, "_OPENAT2", 100_000)
        assert choose_opener(descriptor) is open_by_walk
    finally:
        os.close(descriptor)


def test_neither_way_follows_a_link_nor_leaves_descriptors_behind(
    workspace: Path, secret: Path, way: OpenBeneath
) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "file").write_text("mine")
    (workspace / "a" / "link").symlink_to("b")
    root = os.open(workspace, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    try:
        os.close(way(root, (b"a", b"b", b"file"), os.O_RDONLY))
        os.close(way(root, (), os.O_RDONLY))
        for parts in ((b"a", b"link"), (b"a", b"link", b"file"), (b"a", b"none", b"file")):
            with pytest.raises(OSError):
                way(root, parts, os.O_RDONLY)
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        os.close(root)


@pytest.mark.parametrize(
    "path",
    [".git/config", ".git/hooks/pre-commit", ".git/commondir", "sub/.git/config", ".GIT/config", "link/config", ".git"],
)
def test_nothing_is_written_into_a_repository_of_git(tmp_path: Path, path: str) -> None:
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "repository" / "link").symlink_to(".git")
    with Workspace(tmp_path / "repository") as workspace:
        for change in (workspace.write, workspace.append):
            with pytest.raises(ToolError, match="belongs to git") as caught:
                change(path, b"evil")
            assert caught.value.code == "invalid_path"
        workspace.write(".gitignore", b"ordinary")
        workspace.write("git/config", b"ordinary")
    assert list((tmp_path / "repository" / ".git").iterdir()) == []


WRITES_AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from handspan.core.errors import ToolError
from handspan.tools.workspace import Workspace
workspace = Workspace(Path(sys.argv[1]))
with workspace.open_file("shared.txt"):
    pass  # loads what only root may read here
os.setgroups([int(group) for group in sys.argv[2:]])
os.setgid(1000)
os.setuid(1000)
try:
    workspace.edit("shared.txt", lambda old: old + b"new", 1000)
except ToolError as error:
    print(error.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize(
    ("mode", "groups", "group", "is_written"),
    [(0o660, ["2000"], 2000, True), (0o666, [], 1000, True), (0o676, [], 2000, False)],
)
def test_a_write_never_takes_a_file_from_its_group(
    tmp_path: Path, mode: int, groups: list[str], group: int, is_written: bool
) -> None:
    shared = tmp_path / "shared.txt"
    shared.write_bytes(b"old ")
    os.chown(shared, 1001, 2000)
    shared.chmod(mode)
    tmp_path.chmod(0o777)
    line = (sys.executable, "-c", WRITES_AS_ANOTHER_USER, str(tmp_path), *groups)
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert shared.read_bytes() == (b"old new" if is_written else b"old ")
    assert (shared.stat().st_gid, shared.stat().st_mode & 0o777) == (group, mode)
    assert ("would take it from that group" in said) is not is_written
