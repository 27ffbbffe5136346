"""The audit log: a file of its own, rotated, for its owner alone (SPEC E7, S6)."""

import os
import stat
from pathlib import Path

import msgspec
import pytest

from handspan.config.rotated_file import RotatedFile
from handspan.config.settings import HookSettings
from handspan.core.values import JsonObject
from handspan.engine.builtin_hooks import make_hooks
from handspan.engine.hooks import Hooks
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit

pytestmark = pytest.mark.anyio


def audited(make_kit: MakeKit, state: Path, **config: object) -> EngineKit:
    """A kit whose calls are written to files below `state`, with one tool: `half`."""
    kit = make_kit(hooks=Hooks(make_hooks([HookSettings("audit_log", {**config})], state)))  # type: ignore[dict-item]

    async def half(of: int) -> int:
        if of % 2:
            raise ValueError("odd")
        return of // 2

    kit.add(half)
    return kit


def lines(path: Path) -> list[JsonObject]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


async def test_every_call_and_its_end_are_in_the_file_for_its_owner_alone(make_kit: MakeKit, tmp_path: Path) -> None:
    state = tmp_path / "not yet there"
    kit = audited(make_kit, state)
    await kit.value("half", {"of": 4})
    await kit.failure("half", {"of": 3})
    found = lines(state / "audit.jsonl")
    assert [(line["event"], line["tool"], line.get("status")) for line in found] == [
        ("call", "half", None),
        ("result", "half", "success"),
        ("call", "half", None),
        ("result", "half", "execution_failed"),
    ]
    assert all({"at", "id", "owner", "agent", "session"} <= line.keys() for line in found)
    assert not any("arguments" in line for line in found)  # they may be private
    assert stat.S_IMODE((state / "audit.jsonl").stat().st_mode) == 0o600


async def test_a_call_that_a_hook_changed_has_one_line_for_its_begin_and_one_for_the_change(
    make_kit: MakeKit, tmp_path: Path
) -> None:
    chain = [HookSettings("audit_log", {"arguments": True}), HookSettings("path_prefix", {"prefix": "sub"})]
    kit = make_kit(hooks=Hooks(make_hooks(chain, tmp_path)))

    async def read_file(path: str) -> str:
        return path

    kit.add(read_file)
    await kit.value("read_file", {"path": "a"})
    assert [(line["event"], line.get("arguments")) for line in lines(tmp_path / "audit.jsonl")] == [
        ("call", {"path": "a"}),
        ("change", {"path": "sub/a"}),
        ("result", None),
    ]


async def test_arguments_are_written_when_the_settings_say_so(make_kit: MakeKit, tmp_path: Path) -> None:
    await audited(make_kit, tmp_path, arguments=True, file="own.log").value("half", {"of": 4})
    assert [line.get("arguments") for line in lines(tmp_path / "own.log")] == [{"of": 4}, None]


async def test_a_call_that_can_not_be_written_down_is_refused(make_kit: MakeKit, tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    failure = await audited(make_kit, tmp_path).failure("half", {"of": 4})
    assert (failure.code, "'audit_log' gave no verdict" in failure.message) == ("hook_cancelled", True)


def test_a_full_file_is_kept_under_a_number_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch(mode=0o644)
    one, other = RotatedFile(path, 10, 2), RotatedFile(path, 10, 2)  # two processes
    for number in range(4):
        (one if number % 2 else other).add(b"line %d ..\n" % number)
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert kept == {"log": b"line 3 ..\n", "log.1": b"line 2 ..\n", "log.2": b"line 1 ..\n"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_a_file_that_takes_only_a_part_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full, pytest.raises(OSError, match="make room on the disk") as caught:
        full.setattr(os, "write", lambda _, lines: len(lines) - 1)
        RotatedFile(tmp_path / "audit", 100, 1).add(b"a line\n")
    assert caught.value.strerror == "only a part of the lines was written: make room on the disk"
    assert caught.value.filename == str(tmp_path / "audit")
