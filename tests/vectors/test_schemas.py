"""`protocol/schema/` is what `wire/ws_frames.py` says."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from handspan.core.schema import Validator
from handspan.wire.ws import ClientFrame, ServerFrame, encode
from handspan.wire.ws_frames import CallRequest, Connect, Connected, MediaPart, ResultFrame, WireLimits
from tests.vectors.cases import schema

SCRIPT = Path(__file__).parents[2] / "scripts" / "protocol_schemas.py"


def test_schemas_are_as_the_script_writes_them() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.parametrize(
    ("side", "frame"),
    [
        ("client", Connect(label="phone", resume="t1")),
        ("client", ResultFrame(id="c1", output={"a": 1}, parts=[MediaPart("image", "image/png", "aGk=")])),
        ("server", Connected(1, "hello", ["resume"], WireLimits(tools=3), resumed=False)),
        ("server", CallRequest("c1", "camera", {"quality": "low"}, 1000, True)),
    ],
)
def test_what_is_sent_is_valid_by_its_schema(side: str, frame: ClientFrame | ServerFrame) -> None:
    sent = msgspec.json.decode(encode(frame))
    assert Validator(schema(side, sent["type"])).problems(sent) == []


def test_what_is_no_frame_is_not_valid() -> None:
    assert Validator(schema("client", "unregister_tools")).problems({"type": "unregister_tools"}) != []
    assert Validator(schema("client", "connect")).problems({"type": "connect", "role": "king"}) != []
