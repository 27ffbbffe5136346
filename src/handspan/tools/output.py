"""The output of a child process: shown while it comes, and stored from its first byte on (SPEC X3, X5)."""

import asyncio
import codecs
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

from msgspec import Struct

from handspan.core.artifacts import ArtifactRef
from handspan.core.context import Progress, ToolContext, no_progress
from handspan.core.errors import ToolError
from handspan.core.long_text import LongText, fit_texts

SHOWN_BYTES: Final = 65_536
STORED_BYTES: Final = 10 * 1024 * 1024
MAX_SHOWN_CHARACTERS: Final = 4_096
"""The most characters of one progress report."""
_OTHER_FIELDS: Final = 1024
"""Bytes of a result that are not output: exit code, duration, notes."""
_MAX_WAITING: Final = 4 * 1024 * 1024
"""Bytes that may wait for the disk. With more, the child has to wait, too."""

StoreOutput: TypeAlias = Callable[[str, AsyncIterator[bytes]], Awaitable[ArtifactRef]]
"""(name of the stream, its pieces) → the artifact. Raises `ToolError` when the stream can't be stored."""


class OutputLimits(Struct, frozen=True):
    """How much of each stream is in memory, and how much is stored."""

    shown: int = SHOWN_BYTES
    """A stream with more bytes than this is stored as an artifact, and only its head and tail are shown."""
    preview: int = SHOWN_BYTES
    """The most bytes that a result shows of all streams, if one of them is stored."""
    stored: int = STORED_BYTES
    """The most bytes of an artifact. More is read and dropped, so that the child is not blocked."""


DEFAULT_LIMITS: Final = OutputLimits()


class OutputStorage:
    """Stores the output of one call as artifacts of its owner."""

    def __init__(self, ctx: ToolContext, tool: str, limits: OutputLimits = DEFAULT_LIMITS) -> None:
        self._ctx = ctx
        self._tool = tool
        self.limits = limits
        self.progress = ctx.progress

    async def store_stream(self, name: str, pieces: AsyncIterator[bytes]) -> ArtifactRef:
        """Store a stream while it comes."""
        ctx = self._ctx
        return await ctx.artifacts.receive(
            pieces, owner=ctx.who.owner, session=ctx.session, name=f"{self._tool} {name}"
        )

    async def show(self, streams: dict[str, LongText]) -> dict[str, str]:
        """Return what a model sees of each stream. If all are short, they stay whole: the engine may cut them."""
        if all(text.is_whole for text in streams.values()):
            return {name: text.head for name, text in streams.items()}
        shown = await fit_texts(streams, self.limits.preview - _OTHER_FIELDS, self._keep)
        return {name: shown[name] for name in streams}

    async def _keep(self, name: str, text: str) -> tuple[str, str]:
        """Return the id of the artifact with this text; or an empty id, and why it was not stored."""
        ctx = self._ctx
        try:
            kept = await ctx.artifacts.keep(
                text.encode(), owner=ctx.who.owner, session=ctx.session, name=f"{self._tool} {name}"
            )
        except ToolError as error:
            return "", error.message
        return kept.id, ""


class OutputStream:
    """One stream of a child. Bytes that are not UTF-8 become replacement characters, so that the artifact is text."""

    def __init__(
        self,
        name: str,
        limits: OutputLimits,
        store: StoreOutput | None = None,
        progress: Progress = no_progress,
        pause: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """`store`: stores the stream; None: what is neither head nor tail is dropped.

        `pause`: stops (True) or continues (False) the reading of the pipe.
        """
        self._name = name
        self._limits = limits
        self._store = store
        self._pause = pause
        self._progress = OutputProgress(name, progress, asyncio.get_running_loop())
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._line_breaks = 0
        self._stored = 0
        """Bytes that were given to the artifact."""
        self._waiting: deque[bytes] = deque()
        """Pieces that the artifact has not taken yet."""
        self._waiting_size = 0
        self._is_paused = False
        self._is_over = False
        self._changed = asyncio.Event()
        """Wakes `_pieces`: a piece has come, or the stream is over."""
        self._storing: asyncio.Task[ArtifactRef] | None = None
        """Writes the artifact, once the stream is too long to be shown."""

    def add(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        self._take(self._decoder.decode(data))

    async def finish(self) -> LongText:
        """End the stream. Return its text, once all of it is stored."""
        self._end()
        artifact = problem = ""
        if self._storing is not None:
            try:
                artifact = (await self._storing).id
                problem = self._missing()
            except ToolError as error:
                problem = error.message
        lines = self._line_breaks + (self._size > 0 and not self._tail.endswith(b"\n"))
        head, tail = bytes(self._head), bytes(self._tail)
        if self._size <= len(tail):
            head = tail
        # Only a character that was cut, at the end of the head or the beginning of the tail, is no UTF-8.
        texts = (head.decode("utf-8", "ignore"), tail.decode("utf-8", "ignore"))
        return LongText(*texts, self._size, lines, artifact, stored=self._stored, problem=problem)

    async def discard(self) -> None:
        """End a stream that is not needed: nothing of it stays stored."""
        self._end()
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.wait((self._storing,))

    def _end(self) -> None:
        if not self._is_over:
            self._take(self._decoder.decode(b"", final=True))
            self._progress.close()
            self._is_over = True
            self._changed.set()

    def _take(self, text: str) -> None:
        """Report the text as progress, add it to head and tail, and give it to the artifact."""
        if not text:
            return
        self._progress.add(text)
        data = text.encode()
        self._size += len(data)
        self._line_breaks += data.count(b"\n")
        shown = self._limits.shown
        self._head += data[: max(0, shown - len(self._head))]
        self._tail += data[-shown:]
        del self._tail[:-shown]
        if self._store is not None:
            self._give_to_store(self._store, data)

    def _give_to_store(self, store: StoreOutput, data: bytes) -> None:
        """Give the data to the artifact, which begins when the stream gets too long to be shown."""
        data = data[: self._limits.stored - self._stored]
        self._stored += len(data)
        if self._storing is not None and self._storing.done():  # storing has failed, as when the disk is full
            self._waiting.clear()
            return
        if not data:
            return
        self._waiting.append(data)
        self._waiting_size += len(data)
        self._changed.set()
        if self._storing is None and self._size > self._limits.shown:
            self._storing = asyncio.ensure_future(store(self._name, self._pieces()))
            self._storing.add_done_callback(lambda _: self._resume())
        if self._waiting_size > _MAX_WAITING and self._storing is not None:
            self._set_paused(is_paused=True)

    async def _pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces for the artifact as they come. When none waits, the pipe is read again."""
        while self._waiting or not self._is_over:
            if not self._waiting:
                self._resume()
                self._changed.clear()
                await self._changed.wait()
                continue
            piece = self._waiting.popleft()
            self._waiting_size -= len(piece)
            yield piece

    def _resume(self) -> None:
        self._set_paused(is_paused=False)

    def _set_paused(self, *, is_paused: bool) -> None:
        """Stop or continue the reading of the pipe, if that is a change."""
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            self._pause(is_paused)

    def _missing(self) -> str:
        """Return a note on the bytes that the artifact does not have; empty when it has all."""
        if self._stored >= self._size:
            return ""
        return (
            f"Only the first {self._stored} bytes are kept (setting tools.output_limit); the other "
            f"{self._size - self._stored} are lost, but for the end shown here."
        )


class OutputProgress:
    """Reports a stream as progress: each piece of a slow stream at once, a fast stream less often (SPEC X5)."""

    def __init__(self, stream: str, progress: Progress, loop: asyncio.AbstractEventLoop) -> None:
        self._stream = stream
        self._progress = progress
        self._loop = loop
        self._unreported = ""
        self._skipped = 0
        self._reports = 0
        self._next_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """Report this text now, or with the next report. A report has only the end of a long text."""
        unreported = self._unreported + text
        self._skipped += max(0, len(unreported) - MAX_SHOWN_CHARACTERS)
        self._unreported = unreported[-MAX_SHOWN_CHARACTERS:]
        if self._timer is None and self._unreported:
            delay = self._next_at - self._loop.time()
            if delay <= 0:
                self._report()
            else:
                self._timer = self._loop.call_later(delay, self._report)

    def close(self) -> None:
        """Report the rest."""
        if self._timer is not None:
            self._timer.cancel()
        if self._unreported:
            self._report()

    def _report(self) -> None:
        mark = f"[… {self._skipped} characters not shown …]\n" if self._skipped else ""
        self._progress({"stream": self._stream, "text": mark + self._unreported})
        self._timer, self._unreported, self._skipped = None, "", 0
        self._reports += 1
        # At first there are up to ten reports a second, after many reports only one every two seconds.
        self._next_at = self._loop.time() + min(2.0, 0.1 * 2.0 ** (self._reports // 50))
