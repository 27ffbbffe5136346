"""A file that other users could have written decides nothing: neither the settings nor `mcp.json` (SPEC S6, T6)."""

import grp
import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from handspan.config import other_writers
from handspan.config.load import load_settings
from handspan.config.mcp_file import write_server
from handspan.config.other_writers import find_other_writer
from handspan.config.tool_settings import McpServer
from handspan.core.errors import ConfigError

OTHER = 54321


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir(mode=0o755)
    file.write_text("{}", encoding="utf-8")
    file.chmod(0o644)
    return file


@pytest.fixture(autouse=True)
def fresh_groups() -> Iterator[None]:
    other_writers._is_own_group.cache_clear()
    yield
    other_writers._is_own_group.cache_clear()


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the path belong to another user: really, where this user may do that."""
    if os.geteuid() == 0:
        os.chown(path, OTHER, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER)


def share_own_group(monkeypatch: pytest.MonkeyPatch, members: list[str], user: str) -> int:
    """Give this user the group 4321, with these members, beside the user that has it as its own."""
    users = [SimpleNamespace(pw_name="me", pw_uid=os.geteuid(), pw_gid=4321)]
    users += [SimpleNamespace(pw_name=user, pw_uid=OTHER, pw_gid=4321)] if user else []
    monkeypatch.setattr(os, "getgroups", lambda: [4321])
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name="team", gr_mem=members))
    return 4321


def group_of_all(path: Path, monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    """Let the path belong to this group, as the system says it."""
    real = Path.lstat

    def lstat(this: Path) -> os.stat_result:
        status = real(this)
        return os.stat_result((*status[:5], group, *status[6:])) if this == path else status

    monkeypatch.setattr(Path, "lstat", lstat)


def test_a_file_that_only_its_user_and_root_can_write_is_taken(file: Path) -> None:
    assert find_other_writer(file) is None
    file.chmod(0o600)
    assert find_other_writer(file) is None


@pytest.mark.outside
def test_a_file_that_all_can_write_is_named_with_what_to_type(file: Path) -> None:
    file.chmod(0o666)
    assert find_other_writer(file) == f"it can be written by all users of this computer. Type: chmod o-w {file}"
    spaced = file.with_name("with space")
    file.rename(spaced)
    subprocess.run(str(find_other_writer(spaced)).partition("Type: ")[2], shell=True, check=True)
    subprocess.run(["chmod", "g-w", str(spaced)], check=True)
    assert find_other_writer(spaced) is None


def test_a_file_of_another_user_is_named_with_what_to_type(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(file, monkeypatch)
    found = str(find_other_writer(file))
    assert "belongs to another user (" in found and ". Type: sudo chown " in found


def test_the_group_may_write_only_if_it_is_the_users_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o664)
    group_of_all(file, monkeypatch, 4321)
    assert f"can be written by the group 4321. Type: chmod g-w {file}" in str(find_other_writer(file))
    file.chmod(0o666)
    assert f"by all users of this computer. Type: chmod go-w {file}" in str(find_other_writer(file)), "once is enough"
    file.chmod(0o664)
    for members, user, is_taken in (
        ([], "", True),
        (["me"], "", True),
        (["bob"], "", False),
        ([], "bob", False),
    ):
        other_writers._is_own_group.cache_clear()
        with monkeypatch.context() as patched:
            share_own_group(patched, members, user)
            assert (find_other_writer(file) is None) is is_taken, (members, user)


def test_a_folder_that_others_can_write_counts_as_the_file(file: Path) -> None:
    file.parent.chmod(0o777)
    expected = f"the folder {str(file.parent)!r} can be written by all users of this computer. "
    assert find_other_writer(file) == f"{expected}Type: chmod o-w {file.parent}"
    file.parent.chmod(0o1777)  # as /tmp: others can't replace the files of this user
    assert find_other_writer(file) is None
    assert "can be written by all" in str(find_other_writer(file.parent)), "but they can add files"


def test_every_folder_on_the_way_counts_also_behind_links(file: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    middle = tmp_path / "open" / "link"
    middle.symlink_to(Path("..") / "folder")
    start = tmp_path / "start"
    start.symlink_to(middle)
    assert find_other_writer(start / "file") is None
    (tmp_path / "open").chmod(0o777)
    assert f"the folder {str(tmp_path / 'open')!r} can be written" in str(find_other_writer(start / "file"))


def test_a_link_that_leads_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        find_other_writer(tmp_path / "loop")


def test_a_read_only_file_system_is_written_by_nobody(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0o666)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert find_other_writer(file) is None, "as in a ConfigMap of Kubernetes, whose folders have the mode 777"


def open_to_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("spoil", [open_to_all, give_away], ids=["mode", "owner"])
@pytest.mark.parametrize("name", ["config.toml", "config.json", "mcp.json"])
def test_settings_that_others_can_write_are_not_used(
    tmp_path: Path, name: str, spoil: Callable[[Path, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".config" / "handspan" / name
    file.parent.mkdir(parents=True)
    file.write_text("" if name == "config.toml" else "{}", encoding="utf-8")
    load_settings(None, {"HOME": str(tmp_path)})
    spoil(file, monkeypatch)
    with pytest.raises(ConfigError, match=rf"- {file}: it .*\. Type: .*{file}"):
        load_settings(None, {"HOME": str(tmp_path)})


def test_a_server_is_not_added_to_what_another_user_may_have_written(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"evil": {"command": "evil"}}}', encoding="utf-8")
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="chmod o-w"):
        write_server(file, "mine", McpServer(command="true"))
    assert file.stat().st_mode & 0o777 == 0o666
