"""Ending a process with everything it started."""

import subprocess
import sys

import pytest

from handspan.engine.workers.process_tree import descendants, kill_group, kill_tree

pytestmark = pytest.mark.outside

SCRIPT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"],
                         start_new_session=True)
child.wait()
"""


def test_a_child_in_a_session_of_its_own_is_found_and_killed() -> None:
    leader = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    assert leader.stdout.readline() == b"up\n"
    assert len(descendants(leader.pid)) == 1
    kill_tree(leader.pid)
    assert leader.wait(60) == -9
    assert leader.stdout.read() == b""  # the last one who could write is gone
    leader.stdout.close()


def test_what_is_gone_already_is_no_error() -> None:
    leader = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    leader.wait(60)
    kill_tree(leader.pid)
    kill_group(leader.pid)
    assert descendants(leader.pid) == []
