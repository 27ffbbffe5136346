"""Where tests keep their files: in memory, where the machine has room for them there."""

import os
import shutil
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 4 * 1024**3
_PLACE: Final = "PYTEST_DEBUG_TEMPROOT"
"""pytest's own variable for the parent of all temporary folders; who sets it chooses the place."""


def keep_files_in_memory() -> None:
    """Let `tmp_path` be there. Every store syncs what it writes, and a disk takes longer for that than the tests do."""
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ.setdefault(_PLACE, str(_MEMORY))
