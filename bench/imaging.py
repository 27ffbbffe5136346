"""What it costs to make a phone's photo fit for a model, in the process that does it."""

import resource
import time
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from PIL import Image

from bench.figures import Figure
from handspan.config.tool_settings import MediaSettings
from handspan.media.workers import MediaWorkers
from handspan.models.anthropic.blocks import IMAGES

SIZE = (4032, 3024)
ROUNDS = 7


async def measure(folder: Path) -> Iterable[Figure]:
    """`image_5mb_ms`: CPU of the process from its start to its end, and of ours beside it."""
    workers, photo = MediaWorkers(MediaSettings()), _photo()
    best = float("inf")
    for _ in range(ROUNDS):
        began = _cpu()
        await workers.fit_image(photo, IMAGES)
        best = min(best, _cpu() - began)
    return [Figure("image_5mb_ms", best * 1000, f"ms of CPU, JPEG of {len(photo) / 1e6:.1f} MB")]


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _photo() -> bytes:
    """A JPEG of 12 megapixels with as much detail as a phone's photo."""
    grain, written = Image.effect_noise(SIZE, 60), BytesIO()
    Image.merge("RGB", (grain, Image.linear_gradient("L").resize(SIZE), grain)).save(written, "JPEG", quality=85)
    return written.getvalue()
