"""What installed packages bring by entry point (SPEC T6, E7)."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from handspan.config.entry_points import entry_points_of

POINTS = "[other.group]\nx = y:z\n\n[{group}]\nmine = package:thing\n"


def install(folder: Path, group: str) -> None:
    info = folder / "package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: package\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(POINTS.format(group=group), encoding="utf-8")


def test_nothing_is_found_where_no_package_names_the_group() -> None:
    assert list(entry_points_of("handspan.tests.missing")) == []


def test_a_package_that_names_the_group_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "handspan.tests.present")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [point.value for point in entry_points_of("handspan.tests.present")] == ["package:thing"]


def test_a_package_in_a_zip_archive_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "in", "handspan.tests.zipped")
    with ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in (tmp_path / "in" / "package-1.0.dist-info").iterdir():
            archive.write(file, file.relative_to(tmp_path / "in"))
    monkeypatch.syspath_prepend(str(tmp_path / "all.zip"))
    assert [point.name for point in entry_points_of("handspan.tests.zipped")] == ["mine"]


def test_a_folder_of_the_path_that_is_not_there_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "missing"))
    assert list(entry_points_of("handspan.tests.missing")) == []


def test_a_file_where_a_package_should_be_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken-1.0.dist-info").write_text("[handspan.tests.missing]", encoding="utf-8")
    (tmp_path / "empty-1.0.egg-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(entry_points_of("handspan.tests.missing")) == []
