"""Long works of the repository say on a terminal how far they are."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from scripts.progress import Steps

ROOT = Path(__file__).parents[1]
WORK = """
import time
from scripts.progress import Steps
with Steps(2) as steps:
    with steps.step("first"):
        time.sleep(1.2)
    with steps.step("second"):
        pass
"""


def test_a_line_says_which_step_of_how_many_is_at_work() -> None:
    steps = Steps(2)
    with steps.step("first"):
        assert steps.line().startswith("[1/2] first 0 s")
    with steps.step("second"):
        assert steps.line().startswith("[2/2] second")


def test_it_is_shown_at_a_terminal_and_nowhere_else() -> None:
    ours, theirs = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", WORK], cwd=ROOT, stderr=theirs, timeout=60, check=True)
        assert b"[1/2] first" in os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    done = subprocess.run([sys.executable, "-c", WORK], cwd=ROOT, capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
