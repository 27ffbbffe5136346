"""Progress of a call to the MCP client that made it: in order, and never more than the client can read."""

import asyncio
import math

from mcp.server.session import ServerSession

from handspan.core.values import Json


def _number(value: Json) -> float | None:
    """Return the value as a number that a client can read; None if it is none."""
    try:
        number = float(value) if isinstance(value, (int, float)) else math.nan
    except OverflowError:  # more than 308 digits
        return None
    return number if math.isfinite(number) else None


class ProgressSender:
    """Sends progress to a client, in order. A client that reads slowly gets only the newest report."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._count = 0
        self._newest: tuple[float, float | None, str | None] | None = None
        """Progress, total and message of the newest report; None when it is sent."""
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._has_reports = False
        self._is_over = False

    def show(self, value: Json) -> None:
        """Take a report of the tool, from any thread."""
        self._has_reports = True
        self._loop.call_soon_threadsafe(self._take, value)

    def _take(self, value: Json) -> None:
        """Note the newest report. One that was not sent yet is replaced."""
        if self._is_over:  # a report of a thread that still runs after its call has timed out
            return
        self._count += 1
        report = value if isinstance(value, dict) else {"message": str(value)}
        done, total = _number(report.get("progress")), _number(report.get("total"))
        text = report.get("message", report.get("text"))
        self._newest = (float(self._count) if done is None else done, total, text if isinstance(text, str) else None)
        self._task = self._task or asyncio.create_task(self._send())

    async def __aenter__(self) -> "ProgressSender":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Send the last report: the call is over."""
        try:
            if self._has_reports:
                await asyncio.sleep(0)  # `_take` runs first for reports that came just now
        finally:  # also when the client has cancelled the call: then every wait here is cancelled, too
            self._is_over = True
            if self._task is not None:
                self._task.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self._send()

    async def _send(self) -> None:
        while (newest := self._newest) is not None:
            self._newest = None
            await self._session.report_progress(*newest)
        self._task = None
