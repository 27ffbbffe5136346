"""Which calls a client has seen, and which answers nobody has acknowledged yet (ws.md 6). No file, no clock."""

from collections import OrderedDict
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.errors import WireError
from handspan.wire.ws import decode_client, encode
from handspan.wire.ws_frames import FailureFrame, ResultFrame

MOST_IDS: Final = 1000
LONGEST: Final = 3600.0
"""Seconds that anything is remembered."""

Stage: TypeAlias = Literal["started", "answered", "over"]
"""`answered`: not acknowledged yet. `over`: acknowledged, or nobody waits for an answer."""


class Seen(Struct, gc=False):
    """One call."""

    id: str
    at: float
    """When it last changed, in seconds since 1970."""
    stage: Stage
    answer: str = ""
    """The frame that answered it, as JSON text, until it is acknowledged. Written when it is kept."""


class _Kept(Struct):
    """The form of the file."""

    v: int = 1
    resume_token: str = ""
    seen: list[Seen] = []


class CallMemory:
    """What a client must not forget, at most 1,000 calls of the last hour."""

    def __init__(self, *, is_kept: bool = True) -> None:
        """`is_kept`: another life reads it. In this one the peer itself knows which calls run."""
        self._is_kept = is_kept
        self.version = 0
        """Grows with every change."""
        self._resume_token = ""
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        """The order is that of the last change."""
        self._unacknowledged: dict[str, ResultFrame | FailureFrame] = {}

    @classmethod
    def decode(cls, data: bytes, now: float) -> "CallMemory":
        """What an earlier life wrote, without what is too old; `WireError` when it is something else."""
        try:
            kept = msgspec.json.decode(data, type=_Kept)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WireError(f"It is not what a client keeps: {error}.") from None
        memory = cls()
        memory._resume_token = kept.resume_token
        for seen in kept.seen:
            if now - LONGEST < seen.at:
                memory._seen[seen.id] = seen
                if seen.stage == "answered":
                    memory._unacknowledged[seen.id] = _answer(seen)
        return memory

    def encode(self) -> bytes:
        """Everything, for the next life."""
        for call_id, frame in self._unacknowledged.items():
            seen = self._seen[call_id]
            seen.answer = seen.answer or encode(frame).decode()
        return msgspec.json.encode(_Kept(1, self._resume_token, list(self._seen.values())))

    @property
    def resume_token(self) -> str:
        """With which the client may come back."""
        return self._resume_token

    @resume_token.setter
    def resume_token(self, token: str) -> None:
        self._resume_token = token
        self.version += 1

    def stage(self, call_id: str) -> Stage | None:
        """How far this call got; None when it was never seen, or long ago."""
        seen = self._seen.get(call_id)
        return None if seen is None else seen.stage

    def start(self, call_id: str, now: float) -> None:
        """Its code is about to run."""
        if self._is_kept:
            self._note(call_id, "started", now)

    def answer(self, frame: ResultFrame | FailureFrame, now: float) -> None:
        """It has its answer."""
        call_id = frame.call
        self._unacknowledged[call_id] = frame
        self._note(call_id, "answered", now)

    def close(self, call_id: str, now: float) -> None:
        """Its answer is acknowledged, or not needed. The id stays, so that it does not run again."""
        self._unacknowledged.pop(call_id, None)
        self._note(call_id, "over", now)

    def unacknowledged(self) -> list[ResultFrame | FailureFrame]:
        """The answers that have to be sent again, in the order in which they were given."""
        return list(self._unacknowledged.values())

    def _note(self, call_id: str, stage: Stage, now: float) -> None:
        self.version += 1
        seen = self._seen.get(call_id)
        if seen is None:
            self._make_room(now)
            self._seen[call_id] = Seen(call_id, now, stage)
        else:
            seen.at, seen.stage, seen.answer = now, stage, ""
            self._seen.move_to_end(call_id)

    def _make_room(self, now: float) -> None:
        """Forget what is too old, or too much, before one more comes."""
        while self._seen:
            oldest = next(iter(self._seen.values()))
            if len(self._seen) < MOST_IDS and oldest.at >= now - LONGEST:
                break
            del self._seen[oldest.id]
            self._unacknowledged.pop(oldest.id, None)


def _answer(seen: Seen) -> ResultFrame | FailureFrame:
    frame = decode_client(seen.answer)
    if not isinstance(frame, ResultFrame | FailureFrame):
        raise WireError(f"It is not what a client keeps: {seen.id!r} was answered with {type(frame).__name__!r}.")
    return frame
