"""Manifests of providers: which a consumer takes, and why it skips the others (cetp.md 6.1 to 6.3)."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from handspan.provider.manifests import FoundManifest, find_manifests, install_manifest, remove_manifest
from handspan.wire.cetp_manifest import ProviderManifest


def write(folder: str, name: str, content: Any) -> Path:
    """Write a manifest into one of the data folders."""
    path = Path(folder) / "handspan" / "providers" / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    path.chmod(0o644)
    return path


def only(environment: dict[str, str]) -> FoundManifest:
    """The one manifest there is."""
    [found] = find_manifests(environment)
    return found


def test_no_folder_is_no_provider(environment: dict[str, str]) -> None:
    assert find_manifests(environment) == []


def test_a_good_manifest_is_taken_with_the_path_of_its_socket(environment: dict[str, str], run_folder: Path) -> None:
    write(environment["XDG_DATA_HOME"], "org.example.a.json", {"id": "org.example.a", "exec": [sys.executable, "a.py"]})
    found = only(environment)
    assert (found.id, found.problem) == ("org.example.a", "")
    assert found.socket == run_folder / "handspan" / "org.example.a.sock"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", "{", "no manifest"),
        ("a.json", {"id": "b"}, "name the file b.json"),
        ("a.json", {"id": "a", "version": 2}, "version 2"),
        ("a.json", {"id": "a", "exec": ["serve"]}, "absolute path"),
        ("a.json", {"id": "a", "exec": ["/etc/passwd"]}, "no program"),
        ("a.json", {"id": "a", "authorize": ["/etc/passwd"]}, "authorize"),
        ("a.json", {"id": "a", "socket": "/" + "x" * 200}, "103 bytes"),
        ("a.json", " " * 70_000, "65,536"),
    ],
)
def test_a_manifest_that_can_not_be_used_is_skipped_with_the_reason(
    name: str, content: Any, reason: str, environment: dict[str, str]
) -> None:
    write(environment["XDG_DATA_HOME"], name, content)
    assert reason in only(environment).problem


def test_a_file_that_others_may_write_to_is_skipped(environment: dict[str, str]) -> None:
    path = write(environment["XDG_DATA_HOME"], "a.json", {"id": "a"})
    path.chmod(0o664)
    assert f"chmod go-w {path}" in only(environment).problem


def test_a_folder_that_others_may_write_to_is_skipped(environment: dict[str, str]) -> None:
    path = write(environment["XDG_DATA_HOME"], "a.json", {"id": "a"})
    path.parent.chmod(0o777)
    assert f"chmod go-w {path.parent}" in only(environment).problem


def test_a_program_that_others_may_write_to_is_skipped(environment: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o777)
    write(environment["XDG_DATA_HOME"], "a.json", {"id": "a", "exec": [str(program)]})
    assert f"chmod go-w {program}" in only(environment).problem


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_skipped(environment: dict[str, str]) -> None:
    path = write(environment["XDG_DATA_HOME"], "a.json", {"id": "a"})
    os.chown(path, 12345, 12345)
    assert "another user (uid 12345)" in only(environment).problem


def test_a_fifo_and_a_folder_are_skipped_and_stop_nothing(environment: dict[str, str]) -> None:
    folder = write(environment["XDG_DATA_HOME"], "c.json", {"id": "c"}).parent
    os.mkfifo(folder / "a.json", 0o644)
    (folder / "b.json").mkdir(mode=0o755)
    assert [bool(found.problem) for found in find_manifests(environment)] == [True, True, False]


def test_the_persons_own_manifest_comes_before_the_systems(environment: dict[str, str]) -> None:
    write(environment["XDG_DATA_DIRS"], "a.json", {"id": "a", "label": "theirs"})
    own = write(environment["XDG_DATA_HOME"], "a.json", {"id": "a", "label": "mine"})
    first, second = find_manifests(environment)
    assert first.manifest is not None
    assert (first.manifest.label, first.problem) == ("mine", "")
    assert str(own) in second.problem


def test_a_manifest_is_installed_where_it_is_found_and_removed_again(environment: dict[str, str]) -> None:
    manifest = ProviderManifest("org.example.a", "A", exec=[sys.executable])
    before = os.umask(0o002)  # as on systems where each user has a group
    try:
        path = install_manifest(manifest, environment)
    finally:
        os.umask(before)
    assert (only(environment).manifest, only(environment).problem) == (manifest, "")
    assert remove_manifest("org.example.a", environment) == path
    assert find_manifests(environment) == []
    assert remove_manifest("org.example.a", environment) is None
