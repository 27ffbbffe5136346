"""The classes that `make test-android` has compiled."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sdks.android.test.kotlin_client import Jvm

CLASSPATH = os.environ.get("ANDROID_TEST_CLASSPATH", "")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def classpath() -> str:
    assert CLASSPATH, "Run `make test-android`: it compiles the kit, and says where the classes are."
    return CLASSPATH


@pytest.fixture
async def jvm(classpath: str) -> AsyncIterator[Jvm]:
    """A JVM with a client that does what a case says."""
    running = await Jvm.start(classpath, "org.handspan.test.VectorClientKt")
    yield running
    await running.close()


@pytest.fixture
def protocol() -> Path:
    return Path(__file__).parents[3] / "protocol"
