"""`handspan backup` and `handspan restore`: all that must last in one file, and back (SPEC U2)."""

import contextlib
import io
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

import click
import msgspec
from msgspec import Struct

from handspan.cli.options import config_folder, json_option, read_loaded_settings, settings_options
from handspan.cli.progress_line import ProgressLine
from handspan.cli.render import print_done, render_size
from handspan.cli.running import claim_state
from handspan.config import mcp_file
from handspan.config.load import LoadedSettings
from handspan.config.private_files import make_private
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.version import VERSION
from handspan.gateway.stores import copy_store

_FORM: Final = 1
"""The version of the archive's format; an archive with a newer one is refused."""
_PIECE: Final = 1024 * 1024
_MANIFEST: Final = "handspan-backup.json"
_DATABASE: Final = "handspan.db"
_OF_A_PROCESS: Final = ("gateway.json", "gateway.lock", "runs")
"""Names in the state folder that mean something only while a gateway runs."""
_ASIDE: Final = "before-"
"""How the name of a folder begins that has the state, or the person's files, from before a restore."""
_OF_CONFIG: Final = (mcp_file.NAME, "tools", "skills")
"""The person's files and folders that lie beside the settings file."""


class BackupManifest(Struct, frozen=True):
    """What a backup is and holds. It is the first file of the archive."""

    form: int
    version: str
    at: str
    database: bool
    """Whether the archive has the database. PostgreSQL has backups of its own."""
    settings_file: str = ""
    """The name of the settings file in `config/`."""


class BackupReport(Struct, frozen=True):
    """What was saved, or put back."""

    file: str
    files: int
    bytes: int
    database: bool
    kept: list[str] = []
    """A sentence for each thing that was there already: its new name, or that it stays."""


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
@settings_options
def command(file: Path) -> None:
    """Save the state (sessions, journal, artifacts, tokens, memory) and your settings and tools in the new FILE.

    A gateway may run meanwhile: the database is copied as it is at one moment. The file (.tar.gz) holds keys and
    tokens: only you can read it. The workspace is not part of it. With PostgreSQL, use pg_dump for the database.
    """
    loaded = read_loaded_settings(with_servers=False)
    report = _save(loaded, config_folder(), file)
    text = f"{report.files} files, {render_size(report.bytes)}: {str(file)!r} has them. Keep it safe: it holds keys."
    if not report.database:
        text += f" The database is not in it: {'use pg_dump' if loaded.settings.store.url else 'there is none yet'}."
    print_done(report, text)


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--replace", is_flag=True, help="Move what is there aside, under a name with the time.")
@json_option
@settings_options
def restore(file: Path, replace: bool) -> None:
    """Put back what `handspan backup` saved in FILE, into the folders of these settings. No gateway may run there."""
    # On a new computer the settings file comes with the backup.
    state = read_loaded_settings(with_servers=False, may_be_missing=True).settings.state
    with claim_state(state, "End it first: what it has open can't be replaced."):
        report = _put_back(file, state, config_folder(), is_replaced=replace)
    lines = [f"{report.files} files are back in {str(state)!r} and {str(config_folder())!r}.", *report.kept]
    print_done(report, "\n".join([*lines, "`handspan store check` looks whether all fits together."]))


# Saving.


def _save(loaded: LoadedSettings, folder: Path, file: Path) -> BackupReport:
    """Write everything into the new file. A file that is not complete is removed."""
    state = loaded.settings.state
    if not state.is_dir():
        raise ConfigError(f"There is no state folder {str(state)!r}: name the right one with --state.")
    has_database = not loaded.settings.store.url and (state / _DATABASE).exists()
    settings = loaded.file.name if loaded.file else ""
    manifest = BackupManifest(_FORM, VERSION, datetime.now(UTC).isoformat(), has_database, settings_file=settings)
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HandspanError(f"{str(file)!r} can't be written: {error.strerror}. Name a new file.") from None
    # A gateway may write meanwhile, so this is about what there is to save.
    files = [state / _DATABASE, *(path for _, _, path in _files_of_all(loaded, folder))]
    try:
        with (
            os.fdopen(descriptor, "wb") as raw,
            tarfile.open(fileobj=raw, mode="w:gz") as archive,
            ProgressLine("Saving", sum(path.stat().st_size for path in files if path.exists())) as progress,
        ):
            saved = _fill(_ShownArchive(archive, progress), manifest, loaded, folder, except_for=file.resolve())
    except BaseException:
        file.unlink(missing_ok=True)  # half a backup is none
        raise
    return BackupReport(str(file), len(saved), sum(saved), has_database)


def _fill(
    archive: "_ShownArchive", manifest: BackupManifest, loaded: LoadedSettings, folder: Path, *, except_for: Path
) -> list[int]:
    """Add everything to the archive, and return the sizes. The database is first: the files that it names stay."""
    archive.add_bytes(_MANIFEST, msgspec.json.encode(manifest))
    state, sizes = loaded.settings.state, []
    if manifest.database:
        with tempfile.TemporaryDirectory(prefix="backup-", dir=state) as temporary:
            copy = Path(temporary) / _DATABASE
            copy_store(loaded.settings, copy)
            sizes.append(archive.add_still_file(f"state/{_DATABASE}", copy))
    for root, prefix, path in _files_of_all(loaded, folder):
        if path.resolve() != except_for:
            sizes.append(archive.add_file(f"{prefix}/{path.relative_to(root).as_posix()}", path))
    return sizes


def _files_of_all(loaded: LoadedSettings, folder: Path) -> Iterator[tuple[Path, str, Path]]:
    """Yield every file but the database, with the folder that it is in and the name of that folder in the archive."""
    state = loaded.settings.state
    left_out = (_DATABASE, "backup-", _ASIDE)
    kept = [
        top for top in sorted(state.iterdir()) if top.name not in _OF_A_PROCESS and not top.name.startswith(left_out)
    ]
    for root, prefix, tops in ((state, "state", kept), (folder, "config", [folder / name for name in _OF_CONFIG])):
        yield from ((root, prefix, path) for top in tops for path in _files_below(top))
    if loaded.file:
        yield loaded.file.parent, "config", loaded.file


def _files_below(top: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """Yield the regular files, also behind links: settings and large folders are often linked. `above`: the
    folders that lead here.

    Caches of Python are left out: they are made anew.
    """
    if top.name == "__pycache__":
        return
    if top.is_dir():
        folder = top.resolve()
        if folder not in above:  # else a link leads back up
            for inner in sorted(top.iterdir()):
                yield from _files_below(inner, above | {folder})
    elif top.is_file():
        yield top


class _ShownArchive:
    """Adds files to an archive, and shows the progress."""

    def __init__(self, archive: tarfile.TarFile, progress: ProgressLine) -> None:
        self._archive = archive
        self._progress = progress
        progress.add(0)

    def add_file(self, name: str, path: Path) -> int:
        """Add a file, and return its size; 0 for a file that was deleted since the list was made."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return 0
        self.add_bytes(name, content, is_program=os.access(path, os.X_OK))
        return len(content)

    def add_still_file(self, name: str, path: Path) -> int:
        """Add a file that only we write to, piece by piece: it may be large."""
        with _CountedFile(path, self._progress) as file:
            size = path.stat().st_size
            self._archive.addfile(_tar_info(name, size), file)
        return size

    def add_bytes(self, name: str, content: bytes, *, is_program: bool = False) -> None:
        """Add a file with this content."""
        self._archive.addfile(_tar_info(name, len(content), is_program=is_program), io.BytesIO(content))
        self._progress.add(len(content))


class _CountedFile(io.FileIO):
    """A file that shows how far it is read."""

    def __init__(self, path: Path, progress: ProgressLine) -> None:
        super().__init__(path)
        self._progress = progress

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size) or b""
        self._progress.add(len(data))
        return data


def _tar_info(name: str, size: int, *, is_program: bool = False) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, int(time.time())
    info.mode = 0o700 if is_program else 0o600  # a skill may have scripts
    return info


# Putting back.


def _put_back(file: Path, state: Path, folder: Path, *, is_replaced: bool) -> BackupReport:
    """Check the whole archive, move aside what is in the way, and write the files."""
    kept: list[str] = []
    try:
        with _open_archive(file, "Checking") as archive:
            manifest = _read_manifest(archive)
            _read_through(archive)
        with _open_archive(file, "Restoring") as archive:
            kept += _move_aside(state, is_replaced=is_replaced)
            make_private(state)
            aside = folder / _name_aside() if is_replaced else None
            sizes = [
                _write(member, archive, target)
                for member in archive
                if (target := _target(member, state, folder)) is not None and _clear_target(member, target, aside, kept)
            ]
    except (tarfile.TarError, EOFError, OSError) as error:
        raise HandspanError(" ".join((f"{str(file)!r} can't be put back: {error}.", *kept))) from None
    return BackupReport(str(file), len(sizes), sum(sizes), manifest.database, kept=kept)


@contextlib.contextmanager
def _open_archive(file: Path, what: str) -> Iterator[tarfile.TarFile]:
    """Open an archive, and show how far it is read."""
    with (
        ProgressLine(what, file.stat().st_size) as progress,
        _CountedFile(file, progress) as raw,
        tarfile.open(fileobj=raw, mode="r:gz") as archive,
    ):
        yield archive


def _read_manifest(archive: tarfile.TarFile) -> BackupManifest:
    """Return the first file of the archive. Raises `HandspanError` if it is none of ours, or too new."""
    try:
        first = archive.next()
        content = archive.extractfile(first) if first is not None and first.name == _MANIFEST else None
        manifest = msgspec.json.decode(b"" if content is None else content.read(), type=BackupManifest)
    except msgspec.DecodeError:
        raise HandspanError("This is no backup of Handspan: `handspan backup FILE` makes one.") from None
    if manifest.form > _FORM:
        raise HandspanError(
            f"Handspan {manifest.version} made this backup, and this one can't read it: use a newer one."
        )
    return manifest


def _read_through(archive: tarfile.TarFile) -> None:
    """Raise when the archive is damaged or cut off: nothing may be moved aside for half a backup."""
    for member in archive:
        source = archive.extractfile(member) if member.isreg() else None
        while source is not None and source.read(_PIECE):
            pass


def _move_aside(state: Path, *, is_replaced: bool) -> list[str]:
    """Move what is in the state folder aside, and return where it is. Raises `HandspanError` unless `is_replaced`."""
    there = [
        path for path in sorted(state.iterdir()) if path.name not in _OF_A_PROCESS and not path.name.startswith(_ASIDE)
    ]
    if not there:
        return []
    if not is_replaced:
        raise HandspanError(f"The state folder {str(state)!r} is not empty: --replace moves what is there aside.")
    aside = _find_aside(state.resolve())
    aside.mkdir(mode=0o700)
    for path in there:
        path.rename(aside / path.name)
    return [f"The state from before is in {str(aside)!r}."]


def _find_aside(state: Path) -> Path:
    """Return a folder for the state of before: beside the state folder or, where that is a mount, in it."""
    name = _name_aside()
    is_movable = state.parent.stat().st_dev == state.stat().st_dev and os.access(state.parent, os.W_OK)
    return state.with_name(f"{state.name}.{name}") if is_movable else state / name


def _name_aside() -> str:
    return f"{_ASIDE}{datetime.now():%Y%m%d-%H%M%S}"


def _target(member: tarfile.TarInfo, state: Path, folder: Path) -> Path | None:
    """Return where a file belongs; None for what is no part of a backup. A name never leads out of its folder."""
    root, *parts = PurePosixPath(member.name).parts
    folders = {"state": state, "config": folder}
    if not member.isreg() or root not in folders or not parts or any(part in ("..", "/", "") for part in parts):
        return None
    return folders[root].joinpath(*parts)


def _clear_target(member: tarfile.TarInfo, target: Path, aside: Path | None, kept: list[str]) -> bool:
    """Return whether the file may be written. An existing file is moved into the folder `aside`; without one it stays.

    `kept` gets a sentence about that. The folder is not among tools and skills: the next backup leaves it out.
    """
    if not os.path.lexists(target):
        return True
    if aside is None:
        kept.append(f"{str(target)!r} was there already, and stays.")
        return False
    if not aside.exists():
        make_private(aside)
        kept.append(f"The settings, tools and skills from before are in {str(aside)!r}.")
    before = aside.joinpath(*PurePosixPath(member.name).parts[1:])
    before.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.move(target, before)  # a linked folder may be on another disk
    return True


def _write(member: tarfile.TarInfo, archive: tarfile.TarFile, target: Path) -> int:
    """Write one file of the archive, and return its size."""
    source = archive.extractfile(member)
    assert source is not None  # it is a regular file
    if not target.parent.exists():
        make_private(target.parent)
    content = source.read()
    mode = 0o600 | (member.mode & 0o100)
    with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode), "wb") as file:
        file.write(content)
    return len(content)
