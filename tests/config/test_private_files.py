"""Files for their owner alone: whole or not there, and never in the way."""

import os
import stat
from pathlib import Path

import pytest

from handspan.config.private_files import read_private, replace_private


def test_what_cannot_be_put_there_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").write_text("")
    with pytest.raises(OSError, match="directory"):
        replace_private(tmp_path / "there", b"new")
    assert os.listdir(tmp_path) == ["there"]


def test_the_new_content_takes_the_place_of_the_old_and_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("stays")
    (tmp_path / "file").symlink_to("target")
    replace_private(tmp_path / "file", b"new")
    assert read_private(tmp_path / "file") == b"new" and (tmp_path / "target").read_text() == "stays"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["file", "target"]


def test_a_pipe_does_not_hang_a_reader_and_a_missing_file_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_private(tmp_path / "pipe")
    assert read_private(tmp_path / "missing") is None


def test_a_file_is_read_to_its_end_and_one_that_can_not_be_ours_is_refused(tmp_path: Path) -> None:
    replace_private(tmp_path / "models.json", b"x" * 300_000)
    assert len(read_private(tmp_path / "models.json") or b"") == 300_000
    with open(tmp_path / "huge", "wb") as huge:
        huge.truncate(17 * 1024 * 1024)
    with pytest.raises(OSError, match="it has more than"):
        read_private(tmp_path / "huge")
