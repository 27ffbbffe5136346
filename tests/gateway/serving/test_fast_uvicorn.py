"""What the gateway loads before its first answer, and that what it put off is whole for whoever asks later."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from handspan.core.fast import FAST_VARIABLE
from handspan.gateway.serving.fast_uvicorn import put_off
from tests.waiting import WAIT

LATE = (
    "encodings.idna handspan.gateway.clients.chat handspan.gateway.clients.socket "
    "handspan.gateway.graph handspan.gateway.http.routing handspan.gateway.rest "
    "handspan.models.offline.model http.client httpx2 importlib.metadata logging.handlers "
    "markdownify multiprocessing pydantic rich starlette.requests uvicorn.main websockets "
    "configparser email.utils logging.config"
)
FIRST_ANSWER = """
import asyncio, sys
import handspan.cli.main, handspan.cli.serve
from handspan.config.load import load_settings
from handspan.gateway.gateway import Gateway
from handspan.gateway.serving.server import Server

async def answered():
    folders = {"state": sys.argv[1] + "/state", "workspace": sys.argv[1] + "/ws", "gateway.port": 0}
    settings = load_settings(None, {"HOME": sys.argv[1]}, folders)
    server = Server(Gateway(settings, model="offline"), settings.gateway)
    await server.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"GET /health HTTP/1.1\\r\\nHost: 127.0.0.1:{server.port}\\r\\n\\r\\n".encode())
    status = (await reader.readline()).split()[1].decode()
    print(status, *(name for name in sys.argv[2].split() if name in sys.modules))
    writer.close()
    await server.close()

asyncio.run(answered())
"""
WHOLE = """
import sys
from typing import Any
import handspan.gateway.serving.server
print("uvicorn.main" in sys.modules, "logging.config" in sys.modules)
import handspan.gateway.clients.socket
print("logging.config" in sys.modules)
import uvicorn
print(uvicorn.run.__module__, uvicorn.Server.__module__, uvicorn.__version__ > "0", callable(uvicorn.config.Config))
print(uvicorn.config.Config.__module__, uvicorn.server.ServerState.__module__, uvicorn._types.Scope is not Any)
"""


def said_by(code: str, *arguments: str) -> list[str]:
    """The lines that a Python of its own prints; without whoever measures coverage, who loads modules too."""
    command = [sys.executable, "-c", code, *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    environ[FAST_VARIABLE] = "on"
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=WAIT, check=True)
    return ran.stdout.splitlines()


def test_nothing_heavy_is_loaded_before_the_first_answer(tmp_path: Path) -> None:
    assert said_by(FIRST_ANSWER, str(tmp_path), LATE) == ["200"]


def test_who_wants_all_of_uvicorn_has_it() -> None:
    assert said_by(WHOLE) == [
        "False False",
        "False",
        "uvicorn.main uvicorn.server True True",
        "uvicorn.config uvicorn.server True",
    ]


class TestPuttingOff:
    @pytest.fixture(autouse=True)
    def package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        (tmp_path / "slow_package").mkdir()
        (tmp_path / "slow_package" / "__init__.py").write_text("from slow_package.part import size\nran = True\n")
        (tmp_path / "slow_package" / "part.py").write_text("size = 3\n")
        monkeypatch.syspath_prepend(tmp_path)
        yield
        for name in [name for name in sys.modules if name.partition(".")[0] == "slow_package"]:
            del sys.modules[name]

    def test_what_is_not_there_can_be_put_off_and_is_still_not_there(self) -> None:
        put_off("no_such_package")
        with pytest.raises(ModuleNotFoundError):
            import_module("no_such_package")

    def test_a_module_that_ran_stays_as_it_is(self) -> None:
        ran = import_module("slow_package")
        put_off("slow_package")
        assert sys.modules["slow_package"] is ran
        assert "ran" in vars(ran)

    def test_a_package_runs_when_something_in_it_is_wanted_and_its_modules_do_not_wait_for_that(self) -> None:
        put_off("slow_package")
        package, part = import_module("slow_package"), import_module("slow_package.part")
        assert part.size == 3
        assert package.part is part
        assert "ran" not in vars(package)
        assert package.ran is True
        assert package.size == 3

    def test_a_module_runs_when_a_name_is_imported_from_it_not_when_it_is_imported(self) -> None:
        import_module("slow_package")
        del sys.modules["slow_package.part"]
        put_off("slow_package.part")
        part = import_module("slow_package.part")
        assert not hasattr(part, "__path__")
        assert "size" not in vars(part)
        exec("from slow_package.part import size")
        assert "size" in vars(part)

    def test_what_it_does_not_have_is_an_error_each_time(self) -> None:
        put_off("slow_package")
        for _ in range(2):
            with pytest.raises(AttributeError, match="absent"):
                _ = import_module("slow_package").absent

    def test_a_module_of_a_package_is_found_in_it(self) -> None:
        package = import_module("slow_package")
        del sys.modules["slow_package.part"], package.part
        put_off("slow_package.part")
        assert "size" not in vars(package.part)
        assert package.part.size == 3
