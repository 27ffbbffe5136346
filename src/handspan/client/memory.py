"""The calls that a client has seen and the answers that are not acknowledged yet, with the file for both (ws.md 6)."""

import fcntl
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from handspan.client.errors import StateFileInUse
from handspan.core.errors import ConfigError, WireError
from handspan.wire.ws import decode_client, encode
from handspan.wire.ws_frames import FailureFrame, ResultFrame

MAX_CALLS: Final = 1000
MAX_AGE: Final = 3600.0
"""Seconds after which a call is forgotten."""

Stage: TypeAlias = Literal["started", "answered", "over"]
"""`answered`: not acknowledged yet. `over`: acknowledged, or the answer is not needed."""


class SeenCall(Struct, gc=False):
    """What is remembered of one call."""

    id: str
    at: float
    """When its stage was last set, in seconds since 1970."""
    stage: Stage
    retry: int = 0
    """The `retry` of the last request that was run."""
    answer: str = ""
    """The frame that answered the call, as JSON text, until it is acknowledged. `CallMemory.encode` fills it in."""


class _SavedState(Struct):
    """The content of the state file."""

    v: int = 1
    resume_token: str = ""
    seen: list[SeenCall] = []


class CallMemory:
    """The calls that must not run twice and the answers to send again: 1,000 calls of the last hour at most."""

    def __init__(self, *, is_saved: bool = True) -> None:
        """`is_saved`: a later process reads the memory. Else `ClientState` itself knows which calls run."""
        self._is_saved = is_saved
        self.version = 0
        """Grows with every change."""
        self._resume_token = ""
        self._seen: OrderedDict[str, SeenCall] = OrderedDict()
        """The calls by id, in the order of their last change."""
        self._unacknowledged: dict[str, ResultFrame | FailureFrame] = {}

    @classmethod
    def decode(cls, data: bytes, now: float) -> "CallMemory":
        """Return the memory that an earlier process saved, without old calls. Raises `WireError` for any other data."""
        try:
            saved = msgspec.json.decode(data, type=_SavedState)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WireError(f"It is not the state of a client: {error}.") from None
        memory = cls()
        memory._resume_token = saved.resume_token
        for seen in saved.seen:
            if now - MAX_AGE < seen.at:
                memory._seen[seen.id] = seen
                if seen.stage == "answered":
                    memory._unacknowledged[seen.id] = _decode_answer(seen)
        return memory

    def encode(self) -> bytes:
        """Return the content of the state file."""
        for call_id, frame in self._unacknowledged.items():
            seen = self._seen[call_id]
            seen.answer = seen.answer or encode(frame).decode()
        return msgspec.json.encode(_SavedState(1, self._resume_token, list(self._seen.values())))

    @property
    def resume_token(self) -> str:
        """The token with which the client resumes its connection; empty before the first one."""
        return self._resume_token

    @resume_token.setter
    def resume_token(self, token: str) -> None:
        self._resume_token = token
        self.version += 1

    def stage(self, call_id: str) -> Stage | None:
        """Return the stage of this call; None when the client has not seen it, or has forgotten it."""
        seen = self._seen.get(call_id)
        return None if seen is None else seen.stage

    def retry(self, call_id: str) -> int:
        """Return how often the person had logged in when this call was last run (ws.md 5.13)."""
        seen = self._seen.get(call_id)
        return 0 if seen is None else seen.retry

    def find_answer(self, call_id: str) -> ResultFrame | FailureFrame | None:
        """Return the answer of this call that is not acknowledged yet."""
        return self._unacknowledged.get(call_id)

    def start(self, call_id: str, now: float, retry: int = 0) -> None:
        """Remember that the code of this call is about to run."""
        if self._is_saved or retry:
            self._unacknowledged.pop(call_id, None)
            self._set_stage(call_id, "started", now)
            self._seen[call_id].retry = retry

    def answer(self, frame: ResultFrame | FailureFrame, now: float) -> None:
        """Remember this answer until it is acknowledged."""
        call_id = frame.call
        self._unacknowledged[call_id] = frame
        self._set_stage(call_id, "answered", now)

    def close(self, call_id: str, now: float) -> None:
        """Forget the answer of this call. The id stays, so that the call does not run again."""
        self._unacknowledged.pop(call_id, None)
        self._set_stage(call_id, "over", now)

    def unacknowledged_answers(self) -> list[ResultFrame | FailureFrame]:
        """Return the answers to send again, the oldest first."""
        return list(self._unacknowledged.values())

    def _set_stage(self, call_id: str, stage: Stage, now: float) -> None:
        """Note how far this call is. A call that is new may make the oldest one forgotten."""
        self.version += 1
        seen = self._seen.get(call_id)
        if seen is None:
            self._forget_old(now)
            self._seen[call_id] = SeenCall(call_id, now, stage)
        else:
            seen.at, seen.stage, seen.answer = now, stage, ""
            self._seen.move_to_end(call_id)

    def _forget_old(self, now: float) -> None:
        """Remove calls that are too old, and the oldest when there is no space for one more."""
        while self._seen:
            oldest = next(iter(self._seen.values()))
            if len(self._seen) < MAX_CALLS and oldest.at >= now - MAX_AGE:
                break
            del self._seen[oldest.id]
            self._unacknowledged.pop(oldest.id, None)


class StateFile:
    """The file that keeps a `CallMemory` across processes: `Client(state=…)`.

    It is replaced as a whole, only its owner can read it, and one process uses it at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1
        self._writing = threading.Lock()
        self._written = -1

    def open(self, now: float) -> CallMemory:
        """Return the saved memory, or an empty one. Raises `StateFileInUse`, and `ConfigError` for a broken file."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._path.with_name(f"{self._path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return CallMemory.decode(self._path.read_bytes(), now)
        except FileNotFoundError:
            return CallMemory()
        except BlockingIOError:
            self.close()
            raise StateFileInUse(
                f"{str(self._path)!r} is used by another client that runs: give this one a `state` file of its own."
            ) from None
        except WireError as error:
            self.close()
            raise ConfigError(f"{str(self._path)!r} can't be used. {error} Remove it to begin anew.") from None

    def write(self, version: int, data: bytes, *, is_synced: bool) -> None:
        """Replace the file, unless it has a newer version. With `is_synced` the data is on the disk on return."""
        with self._writing:
            if version >= self._written:
                replace_file(self._path, data, is_synced=is_synced)
                self._written = version

    def close(self) -> None:
        """Release the file for other processes."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def replace_file(path: Path, data: bytes, *, is_synced: bool = False) -> None:
    """Replace the whole file, which only its owner can read. With `is_synced` it is on the disk on return."""
    new = path.with_name(f"{path.name}.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)
    if is_synced:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _decode_answer(seen: SeenCall) -> ResultFrame | FailureFrame:
    frame = decode_client(seen.answer)
    if not isinstance(frame, ResultFrame | FailureFrame):
        raise WireError(f"It is not the state of a client: {seen.id!r} was answered with {type(frame).__name__!r}.")
    return frame
