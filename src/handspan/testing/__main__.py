"""`python -m handspan.testing`: a gateway whose model does what the person says (`Spoken`), until SIGTERM ends it.

    python -m handspan.testing --ready-file ready.json --origins http://127.0.0.1:8080

The ready file gets {"url", "token", "pid"} once it answers. Without --state and --workspace it removes all its files.
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from handspan.config.private_files import replace_private
from handspan.config.settings import Settings
from handspan.core.values import Json
from handspan.gateway.gateway import Gateway
from handspan.gateway.serving.server import find_uvloop, serve, use_one_heap
from handspan.testing.spoken import Spoken


def main(words: Sequence[str] | None = None) -> None:
    """Serve with these options."""
    given = _arguments().parse_args(words)
    given.ready_file.unlink(missing_ok=True)  # an old one must not be mistaken for this gateway's
    # A new folder only where it is used, since SIGKILL leaves it.
    is_needed = given.state is None or given.workspace is None
    with tempfile.TemporaryDirectory(prefix="handspan-testing-") if is_needed else nullcontext("") as folder:
        settings = _settings(given, Path(folder))
        use_one_heap()
        with asyncio.Runner(loop_factory=find_uvloop()) as runner:
            runner.run(_serve(settings, given))


async def _serve(settings: Settings, given: argparse.Namespace) -> None:
    gateway = Gateway(settings, given.config, model=Spoken() if given.model is None else given.model)

    def on_ready(url: str) -> None:
        ready = {"url": url, "token": gateway.operator_token, "pid": os.getpid()}
        replace_private(given.ready_file, msgspec.json.encode(ready))

    await serve(gateway, settings.gateway, on_ready=on_ready)


def _arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m handspan.testing", description="A gateway for tests.")
    parser.add_argument("--ready-file", type=Path, required=True, help="gets url, token and pid once it answers")
    parser.add_argument("--port", type=int, default=0, help="the port to listen on; 0 for any free port")
    parser.add_argument("--state", type=Path, help="its state folder; default: a new one that is removed at the end")
    parser.add_argument("--workspace", type=Path, help="its workspace; default: a new one as well")
    parser.add_argument("--config", type=Path, help="its configuration folder: `tools/` in it has tools; default: none")
    parser.add_argument("--model", help="a model by its name in place of `Spoken`; empty: as a new user has it")
    parser.add_argument("--origins", nargs="*", default=[], metavar="URL", help="origins of pages that may use it")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=JSON",
        help="any other setting: --set gateway.resume_grace=1",
    )
    return parser


def _setting(word: str) -> tuple[list[str], Json]:
    key, _, value = word.partition("=")
    try:
        return key.split("."), msgspec.json.decode(value)
    except msgspec.DecodeError:
        raise argparse.ArgumentTypeError(f'{value!r} is not JSON: write KEY=JSON, as in model="offline"') from None


def _settings(given: argparse.Namespace, folder: Path) -> Settings:
    """Return the settings that the options ask for."""
    settings: dict[str, Any] = {
        "workspace": given.workspace or folder / "workspace",
        "state": given.state or folder / "state",
        "gateway": {"port": given.port, "origins": given.origins},
    }
    for path, value in given.set:
        inside = settings
        for name in path[:-1]:
            inside = inside.setdefault(name, {})
        inside[path[-1]] = value
    return msgspec.convert(settings, Settings, strict=False)


if __name__ == "__main__":
    main()
