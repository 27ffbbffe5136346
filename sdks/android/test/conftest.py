"""The classes that `make test-android` has compiled."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sdks.android.test.kotlin_client import Jvm

KIT = Path(__file__).parents[1]


def classpath_of(module: str) -> str:
    """What Maven has compiled of this module, with its tests and all that they need."""
    built = KIT / module / "target"
    listed = built / "classpath.txt"
    assert listed.exists(), "Run `make test-android`: it builds what these tests start."
    return f"{built / 'test-classes'}:{built / 'classes'}:{listed.read_text()}"


def robolectric() -> dict[str, str]:
    """Where the framework code is that Robolectric runs: `make test-android` says so."""
    return {"robolectric_offline": "true", "robolectric_dependency_dir": os.environ["ANDROID_FOLDER"]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def jvm() -> AsyncIterator[Jvm]:
    """A JVM with a client that does what a case says."""
    running = await Jvm.start(classpath_of("client"), "org.handspan.test.VectorClientKt")
    yield running
    await running.close()


@pytest.fixture
def protocol() -> Path:
    return Path(__file__).parents[3] / "protocol"
