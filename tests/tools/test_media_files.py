"""`read_file` on images, PDF and other binary files, called as an agent does (SPEC B)."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from handspan.core.results import Failure, Success
from handspan.core.values import Json
from handspan.engine.workers.process_tree import descendants
from handspan.testing import RunningGateway, running_gateway
from tests.media.files import bomb, locked_pdf, opened, pdf, pdf_of, photo
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

PAGES = [[f"page {page} line {line}" for line in range(40)] for page in range(60)]


class Files:
    """A workspace, and the tools on it."""

    def __init__(self, gateway: RunningGateway, folder: Path) -> None:
        self._gateway = gateway
        self.folder = folder

    def put(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)

    async def read(self, path: str, **more: Json) -> Success:
        result = await self._gateway.call("read_file", path=path, **more)
        assert isinstance(result, Success), result
        return result

    async def refusal(self, path: str, **more: Json) -> Failure:
        result = await self._gateway.call("read_file", path=path, **more)
        assert isinstance(result, Failure)
        return result

    def health(self) -> int:
        with urlopen(f"{self._gateway.url}/health") as response:
            return int(response.status)

    async def run(self, command: str) -> Json:
        result = await self._gateway.call("exec_shell", command=command)
        assert isinstance(result, Success), result
        assert isinstance(result.value, dict)
        return result.value["stdout"]


@pytest.fixture
async def files(on_disk: Path) -> AsyncIterator[Files]:
    async with running_gateway(on_disk) as gateway:
        yield Files(gateway, on_disk / "workspace")


async def test_an_image_comes_as_an_image_small_enough_for_every_model(files: Files) -> None:
    files.put("photo.jpg", photo())
    found = await files.read("photo.jpg")
    (image,) = found.attachments
    assert found.value == "'photo.jpg' is an image of 4032 × 3024 pixels, shown with 1500 × 2000."
    assert (image.kind, image.media_type, image.name) == ("image", "image/jpeg", "photo.jpg")
    assert opened(image.data).size == (1500, 2000)
    assert len(image.data) <= 1_000_000


async def test_a_pdf_comes_as_text_and_can_be_read_to_its_end(files: Files) -> None:
    files.put("book.pdf", pdf(PAGES))
    lines: list[str] = []
    offset: int | None = 1
    while offset is not None:
        text = str((await files.read("book.pdf", offset=offset, limit=900)).value)
        *part, last = text.split("\n")
        lines += part
        found = re.search(r"Read on with offset=(\d+)", last)
        assert found is None or int(found[1]) == len(lines) + 1
        offset = int(found[1]) if found else None
    assert last == "[The end of 60 pages.]"
    assert lines == [line for page, text in enumerate(PAGES, 1) for line in (f"--- page {page} of 60 ---", *text)]


async def test_a_long_pdf_comes_in_parts_that_are_not_cut(files: Files) -> None:
    files.put("book.pdf", pdf([["x" * 90] * 60] * 20))
    found = await files.read("book.pdf")
    assert "Read on with offset=" in str(found.value)[-80:]
    assert len(found.encoded) < 65_536


async def test_a_line_behind_the_end_of_a_pdf_is_a_wrong_argument(files: Files) -> None:
    files.put("short.pdf", pdf([["one"]]))
    behind = await files.refusal("short.pdf", offset=3)
    assert (behind.code, behind.message) == ("invalid_arguments", "'short.pdf' can't be read: its text has no line 3.")


async def test_a_pdf_of_pictures_says_so(files: Files) -> None:
    files.put("scan.pdf", pdf([[], []]))
    assert "scanned pictures" in str((await files.read("scan.pdf")).value)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("bomb.png", bomb(60_000, 60_000), "'bomb.png' can't be read: it has 60000 × 60000 pixels"),
        ("half.jpg", b"\xff\xd8\xff\xe0 and no more", "'half.jpg' can't be read: it is"),
        ("locked.pdf", locked_pdf("x"), "'locked.pdf' can't be read: it is encrypted and needs a password"),
        ("empty.pdf", b"%PDF-1.7\n", "'empty.pdf' can't be read: it is damaged"),
    ],
)
async def test_a_hostile_or_broken_file_is_an_error_with_the_reason(
    files: Files, name: str, data: bytes, reason: str
) -> None:
    files.put(name, data)
    assert (await files.refusal(name)).message.startswith(reason)


async def test_the_gateway_answers_others_while_a_file_is_read(files: Files) -> None:
    files.put("endless.pdf", pdf_of(b"BT " + b"(x) Tj " * 1_000_000 + b"ET"))
    files.put("notes.txt", b"hello")
    before = set(descendants(os.getpid()))
    reading = asyncio.create_task(files.refusal("endless.pdf"))
    await until(lambda: set(descendants(os.getpid())) - before)
    assert await soon(asyncio.to_thread(files.health)) == 200
    assert (await soon(files.read("notes.txt"))).value == "hello"
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_the_way_that_the_error_for_another_binary_file_names_works(on_disk: Path, sandbox: str) -> None:
    async with running_gateway(on_disk, tools={"sandbox": {"enabled": sandbox}}) as gateway:
        files = Files(gateway, on_disk / "workspace")
        files.put("it's data.bin", b"\0\1\2readable words\0\0\xff\xfemore of them\0")
        message = (await files.refusal("it's data.bin")).message
        command = re.search(r"exec_shell with the command: (.*)$", message)
        assert command is not None, message
        assert await files.run(command[1]) == "readable words\nmore of them\n"
