"""The SDK's log on standard error, for programs that have not set up logging."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def log_lines() -> Iterator[None]:
    """Write the SDK's log to standard error, unless the program has set up logging."""
    logger, lines = logging.getLogger(__package__), logging.StreamHandler()
    if logger.hasHandlers():
        yield
        return
    lines.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%H:%M:%S"))
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(lines)
