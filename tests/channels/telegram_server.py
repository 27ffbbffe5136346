"""A server that speaks the Bot API of Telegram, as far as its documentation says and a bot needs: long polling with
offsets, updates that are kept until a later offset is asked for, JSON errors with `error_code` and `parameters`."""

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

import msgspec

from tests.waiting import until

TOKEN: Final = "123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
ADA: Final = {"id": 7, "is_bot": False, "first_name": "Ada", "username": "ada"}
EVE: Final = {"id": 66, "is_bot": False, "first_name": "Eve"}


class TelegramServer:
    """`async with TelegramServer() as telegram`: `telegram.url` is its base URL."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        """The parameters of each `sendMessage` that was accepted."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.offsets: list[int] = []
        self.refuse: Callable[[str], tuple[int, str, dict[str, Any]] | None] = lambda method: None
        """What the next call of a method is refused with: status, description, parameters."""
        self.port = 0
        self._updates: list[dict[str, Any]] = []
        self._next = 100
        self._arrived = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def texts(self) -> list[str]:
        """What the bot has sent."""
        return [one["text"] for one in self.sent]

    def write(self, text: str, sender: dict[str, Any] = ADA, chat: int | None = None, **more: Any) -> None:
        """A person writes to the bot."""
        message = {
            "message_id": self._next * 10,
            "from": sender,
            "chat": {"id": chat or sender["id"], "type": "private"},
        }
        self._add({"message": {**message, "date": 1, "text": text, **more}})

    def press(self, button: str, sender: dict[str, Any] = ADA) -> None:
        """A person presses a button of the last message that has one of this label."""
        message = next(one for one in reversed(self.sent) if button in labels(one))
        data = next(each["callback_data"] for each in keyboard(message) if each["text"] == button)
        shown = {"message_id": message["message_id"], "chat": {"id": int(message["chat_id"])}, "date": 1, "text": "…"}
        self._add({"callback_query": {"id": f"cb{self._next}", "from": sender, "message": shown, "data": data}})

    def add_raw(self, update: dict[str, Any]) -> None:
        """An update of any form."""
        self._add(update)

    async def until_sent(self, count: int) -> str:
        """Wait for so many messages of the bot, and return the last of them."""
        await until(lambda: len(self.sent) >= count)
        return str(self.sent[count - 1]["text"])

    def _add(self, update: dict[str, Any]) -> None:
        self._updates.append({"update_id": self._next, **update})
        self._next += 1
        self._arrived.set()

    async def __aenter__(self) -> "TelegramServer":
        await self.open()
        return self

    async def open(self) -> None:
        """Listen; after `close` again on the same port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Be gone, with all connections. Updates stay."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = first.split(" ")[1]
        status, answer = await self._answer(path, msgspec.json.decode(body or b"{}"))
        encoded = msgspec.json.encode(answer)
        lines_out = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(encoded)}\r\n\r\n"
        writer.write(lines_out.encode() + encoded)
        await writer.drain()

    async def _answer(self, path: str, parameters: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        prefix, _, method = path.rpartition("/")
        if prefix != f"/bot{TOKEN}":
            return 401, {"ok": False, "error_code": 401, "description": "Unauthorized"}
        self.calls.append((method, parameters))
        if refused := self.refuse(method):
            status, description, more = refused
            return status, {"ok": False, "error_code": status, "description": description, "parameters": more}
        if method == "getUpdates":
            return 200, {"ok": True, "result": await self._get_updates(**parameters)}
        if method == "sendMessage":
            message = {**parameters, "message_id": 5000 + len(self.sent)}
            self.sent.append(message)
            return 200, {"ok": True, "result": {"message_id": message["message_id"], "date": 1}}
        return 200, {"ok": True, "result": True}

    async def _get_updates(self, offset: int = 0, timeout: int = 0, limit: int = 100, **_: Any) -> list[dict[str, Any]]:
        self.offsets.append(offset)
        self._updates = [one for one in self._updates if one["update_id"] >= offset]
        if not self._updates and timeout:
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._arrived.wait()
        return self._updates[:limit]


def keyboard(message: dict[str, Any]) -> list[dict[str, str]]:
    """The buttons of a message."""
    rows: list[list[dict[str, str]]] = message.get("reply_markup", {}).get("inline_keyboard", [])
    return [button for row in rows for button in row]


def labels(message: dict[str, Any]) -> list[str]:
    """The labels of its buttons."""
    return [button["text"] for button in keyboard(message)]
