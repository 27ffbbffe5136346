"""The worker process itself, spoken to by hand."""

import struct
import subprocess
import sys

import msgspec
import pytest

from handspan.core.principals import OPERATOR
from handspan.core.results import Success
from handspan.engine.workers.messages import FaultReported, Job, JobEnded, Location, decode_reply

pytestmark = pytest.mark.outside

ADD = Location("tests.engine.isolated_tools", "", "add")


def speak(*jobs: Job) -> subprocess.CompletedProcess[bytes]:
    """Give a worker these jobs and then nothing more."""
    payloads = [msgspec.msgpack.encode(job) for job in jobs]
    words = b"".join(struct.pack("!I", len(payload)) + payload for payload in payloads)
    return subprocess.run(
        [sys.executable, "-m", "handspan.engine.workers.main"], input=words, capture_output=True, timeout=30
    )


def job(location: Location, **arguments: int) -> Job:
    return Job("add", location, dict(arguments), "call-1", OPERATOR, "", None, ".", list(sys.path))


def answers(said: bytes) -> list[object]:
    found: list[object] = []
    while said:
        (length,) = struct.unpack("!I", said[:4])
        found.append(decode_reply(said[4 : 4 + length]))
        said = said[4 + length :]
    return found


def test_a_worker_answers_one_job_after_the_other_and_ends_when_there_are_no_more() -> None:
    ended = speak(job(ADD, a=1, b=2), job(ADD, a=3, b=4))
    assert ended.returncode == 0
    first, second = answers(ended.stdout)
    assert isinstance(first, JobEnded) and isinstance(first.result, Success) and first.result.value == 3
    assert isinstance(second, JobEnded) and isinstance(second.result, Success) and second.result.value == 7


def test_what_can_not_be_found_or_is_no_function_is_a_failure_and_the_worker_goes_on() -> None:
    missing = Location("tests.engine.isolated_tools", "", "missing")
    number = Location("tests.engine.isolated_tools", "", "not_a_tool")
    said = answers(speak(job(missing), job(number), job(ADD, a=1, b=1)).stdout)
    first, second, third = [one for one in said if not isinstance(one, FaultReported)]
    assert isinstance(first, JobEnded) and first.failure and "has no attribute 'missing'" in first.failure.message
    assert isinstance(second, JobEnded) and second.failure and second.failure.code == "execution_failed"
    assert isinstance(third, JobEnded) and isinstance(third.result, Success)
