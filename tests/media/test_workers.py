"""Hostile and broken files: each is an error with its reason, and harms only a process of its own (SPEC X4, E2)."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from handspan.config.tool_settings import MediaSettings
from handspan.core.context import Deadline
from handspan.core.errors import ErrorCode, ToolError
from handspan.core.images import ImageLimits
from handspan.engine.workers.process_tree import descendants
from handspan.media.jobs import ImageJob, PdfJob
from handspan.media.workers import MAX_BYTES, MediaWorkers
from tests.media.files import bomb, locked_pdf, long_pdf, opened, pdf, pdf_of, picture
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

LIMITS = ImageLimits(frozenset(("image/png", "image/jpeg")), 200_000, 1_000_000, 100)
ENDLESS = b"BT " + b"(x) Tj " * 1_000_000 + b"ET"
"""A page that takes minutes."""


async def fit(data: bytes, **settings: float) -> bytes:
    return (await MediaWorkers(MediaSettings(**settings)).fit_image(data, LIMITS)).data  # type: ignore[arg-type]


async def extract(data: bytes, *, first: int = 0, skip: int = 0, lines: int = 1000, size: int = 50_000) -> list[str]:
    found = await MediaWorkers(MediaSettings()).extract_text(PdfJob(data, first, skip, lines, size, 60))
    return list(found.lines)


def children() -> set[int]:
    """The processes below this one."""
    return set(descendants(os.getpid()))


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


class TestImages:
    async def test_one_that_fits_stays_as_it_is(self) -> None:
        small = picture("PNG")
        assert await fit(small) == small

    @pytest.mark.parametrize("kind", ["BMP", "GIF", "TIFF", "WEBP"])
    async def test_another_type_is_converted(self, kind: str) -> None:
        image = opened(await fit(picture(kind, (400, 200))))
        assert (image.format in ("PNG", "JPEG"), image.size) == (True, (100, 50))

    async def test_what_shines_through_gets_a_white_ground_in_a_jpeg(self) -> None:
        workers = MediaWorkers(MediaSettings())
        only_jpeg = ImageLimits(frozenset(("image/jpeg",)), 200_000, 1_000_000, 100)
        fitted = await workers.fit_image(picture("PNG", colour="#ff000000", mode="RGBA"), only_jpeg)
        assert opened(fitted.data).getpixel((0, 0)) == (255, 255, 255)

    async def test_16_bits_a_pixel_are_not_taken_for_white(self) -> None:
        grey = picture("PNG", (200, 200), colour="#000", mode="I;16")
        assert opened(await fit(grey)).convert("L").getpixel((0, 0)) == 0

    async def test_a_wrong_checksum_of_an_ancillary_chunk_takes_only_that_chunk_away(self) -> None:
        plain = picture("PNG", (20, 20))
        head, rest = plain[:33], plain[33:]  # the signature and IHDR, and all other chunks
        note = b"\x00\x00\x00\x05tEXta\x00bcd"
        assert await fit(head + note + b"\x00\x00\x00\x00" + rest) == plain
        whole = head + note + crc32(note[4:]).to_bytes(4) + rest
        assert await fit(whole) == whole

    async def test_a_wrong_checksum_of_the_pixels_is_a_damaged_image(self) -> None:
        plain = bytearray(picture("PNG", (20, 20)))
        plain[plain.index(b"IDAT") + 6] ^= 0xFF
        with pytest.raises(ToolError, match=r"no JPEG, PNG|damaged"):
            await fit(bytes(plain))

    @pytest.mark.parametrize(
        ("data", "code", "reason"),
        [
            (bomb(60_000, 60_000), "file_too_large", "60000 × 60000 pixels"),
            (b"", "execution_failed", "no JPEG, PNG"),
            (b"<svg/>", "execution_failed", "no JPEG, PNG"),
            (picture("PNG", (300, 300))[:200], "execution_failed", "damaged"),
            (picture("JPEG", (300, 300))[:700], "execution_failed", "damaged"),
            (bytes(MAX_BYTES + 1), "file_too_large", f"more than {MAX_BYTES}"),
        ],
        ids=["bomb", "empty", "svg", "half a PNG", "half a JPEG", "too large"],
    )
    async def test_a_wrong_one_is_an_error_with_the_reason(self, data: bytes, code: ErrorCode, reason: str) -> None:
        with pytest.raises(ToolError, match=reason) as refused:
            await fit(data)
        assert refused.value.code == code

    async def test_the_pixels_are_a_setting(self) -> None:
        with pytest.raises(ToolError, match=r"9 × 9 pixels, more than the 80 .*tools\.media\.pixels"):
            await fit(picture("PNG", (9, 9)), pixels=80)

    async def test_one_that_needs_more_memory_than_it_may_have_is_refused(self) -> None:
        with pytest.raises(ToolError, match="memory") as refused:
            await fit(bomb(9_000, 9_000), memory=200 * 1024 * 1024)
        assert refused.value.code == "file_too_large"


class TestPdf:
    async def test_its_text_comes_page_by_page(self) -> None:
        document = pdf([["one", "two"], ["three"]])
        assert await extract(document) == ["--- page 1 of 2 ---", "one", "two", "--- page 2 of 2 ---", "three"]
        assert await extract(document, skip=2, lines=2) == ["two", "--- page 2 of 2 ---"]
        assert await extract(document, first=1, skip=1) == ["three"]

    async def test_a_reply_ends_before_it_is_too_large(self) -> None:
        assert len(await extract(long_pdf(50), size=400)) < 50

    async def test_one_with_very_many_pages_ends_early_and_says_so(self) -> None:
        workers = MediaWorkers(MediaSettings())
        found = await workers.extract_text(PdfJob(long_pdf(1000), 0, 5, None, 1000, 0))
        assert (found.lines, found.pages, found.line_counts, found.is_end) == ((), 1000, (2,), False)

    async def test_a_line_without_end_becomes_several_ones(self) -> None:
        assert [len(line) for line in await extract(pdf([["x" * 2500]]))][1:] == [1000, 1000, 500]

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (locked_pdf("secret"), "encrypted and needs a password"),
            (b"%PDF-1.7 and nothing more", "damaged"),
            (pdf([["x"]])[:150], "damaged"),
        ],
        ids=["encrypted", "empty", "cut"],
    )
    async def test_a_wrong_one_is_an_error_with_the_reason(self, data: bytes, reason: str) -> None:
        with pytest.raises(ToolError, match=reason) as refused:
            await extract(data)
        assert refused.value.code == "execution_failed"

    async def test_one_without_a_password_for_reading_can_be_read(self) -> None:
        assert await extract(locked_pdf("")) == ["--- page 1 of 1 ---", "secret"]


class TestTime:
    async def test_what_takes_too_long_is_stopped(self) -> None:
        workers = MediaWorkers(MediaSettings(seconds=0.5))
        with pytest.raises(ToolError, match=r"longer than 0\.5 s \(tools\.media\.seconds\)") as refused:
            await workers.extract_text(PdfJob(pdf_of(ENDLESS), 0, 0, 10, 1000, 60))
        assert refused.value.code == "timeout"

    async def test_a_cancelled_caller_takes_its_process_along(self) -> None:
        before = children()
        job = PdfJob(pdf_of(ENDLESS), 0, 0, 10, 1000, 60)
        running = asyncio.create_task(MediaWorkers(MediaSettings()).extract_text(job))
        await until(lambda: children() - before)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(running)

    async def test_a_caller_on_a_thread_waits_no_longer_than_its_deadline(self) -> None:
        workers, before = MediaWorkers(MediaSettings()), children()
        workers.open()
        job = PdfJob(pdf_of(ENDLESS), 0, 0, 10, 1000, 60)
        late = Deadline(time.monotonic() + 0.2, "the test's")
        with pytest.raises(ToolError, match="longer than this call may take"):
            await soon(asyncio.to_thread(workers.wait_for, workers.extract_text(job), late))
        await until(lambda: not children() - before)

    async def test_only_some_run_at_once(self) -> None:
        workers, before = MediaWorkers(MediaSettings(processes=1)), children()
        endless = PdfJob(pdf_of(ENDLESS), 0, 0, 10, 1000, 60)
        first, second = (asyncio.create_task(workers.extract_text(endless)) for _ in range(2))
        await until(lambda: children() - before)
        for _ in range(20):
            await asyncio.sleep(0)
            assert len(children() - before) == 1
        second.cancel()
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)


class TestTheProcess:
    async def test_it_loads_no_module_of_the_current_folder_and_gets_no_key(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("PIL.py", "msgspec.py", "handspan.py"):
            (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
        assert await fit(picture("PNG"))
        assert not (tmp_path / "ran").exists()

    def test_it_can_open_no_file_once_it_has_the_image(self) -> None:
        code = (
            "import sys; sys.argv[1:] = [str(2**30), '10']\n"
            "from handspan.media.child import serve\n"
            "from handspan.media.jobs import ImageJob\n"
            "def work(job): open(sys.executable, 'rb')\n"
            "serve(ImageJob, work, opens_files=False)"
        )
        job = msgspec.msgpack.encode(ImageJob(b"", (), 1, 1, 1))
        done = subprocess.run([sys.executable, "-c", code], input=job, capture_output=True, timeout=60, check=False)
        assert b"Too many open files" in done.stdout


def test_no_start_of_ours_loads_the_libraries() -> None:
    code = (
        "import sys, handspan.cli.main, handspan.cli.chat.command, handspan.cli.serve, handspan.gateway.app\n"
        "import handspan.gateway.gateway, handspan.media.workers\n"
        "print(sorted({'PIL', 'pypdf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
