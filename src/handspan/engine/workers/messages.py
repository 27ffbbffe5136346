"""What the engine and its worker processes send to each other: frames of a length and a msgpack body."""

import importlib.util
import inspect
import sys
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.function_tool import is_loading
from handspan.core.principals import Principal
from handspan.core.results import Failure, Pending, Success
from handspan.core.signature import AnyFunction
from handspan.core.values import Json


class Location(Struct, frozen=True):
    """Where another process finds a function."""

    module: str
    file: str
    qualname: str

    @classmethod
    def of(cls, function: AnyFunction) -> "Location":
        """Return the location of this function."""
        return cls(function.__module__, inspect.getsourcefile(function) or "", function.__qualname__)

    def find(self) -> Any:
        """Return the function at this location, or the tool that a decorator made of it."""
        loading = is_loading.set(True)
        try:
            found: Any = self._load_module()
        finally:
            is_loading.reset(loading)
        for name in self.qualname.split("."):
            found = getattr(found, name)
        return found

    def _load_module(self) -> Any:
        """Return the module that has the tool's function, loaded in this worker. Raises `ImportError`."""
        if self.module in sys.modules and self.module != "__main__":
            return sys.modules[self.module]
        if self.module != "__main__" and _can_be_imported(self.module):
            return importlib.import_module(self.module)
        # A script, or a file of the tools folder, gets a module name of its own, so that its `__main__` part does not
        # run. A file that has changed is compiled anew: Python's cache compares times in whole seconds.
        try:
            source = Path(self.file).read_bytes()
        except OSError as error:
            raise ImportError(f"{self.file!r} can't be loaded: {error.strerror}") from None
        name = f"handspan_isolated_{abs(hash((self.file, source)))}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, self.file)
            if spec is None:
                raise ImportError(f"{self.file!r} can't be loaded")
            code = compile(importlib.util.decode_source(source), self.file, "exec", dont_inherit=True)
            sys.modules[name] = importlib.util.module_from_spec(spec)
            try:
                exec(code, vars(sys.modules[name]))
            except BaseException:
                del sys.modules[name]  # half a module must not be found at the next call
                raise
        return sys.modules[name]


def _can_be_imported(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the module's package does not exist
        return False


class Job(Struct, frozen=True):
    """One call for a worker process."""

    tool: str
    location: Location
    arguments: dict[str, Json]
    call_id: str
    who: Principal
    session: str
    seconds: float | None
    """Seconds until the call's deadline."""
    workspace: str
    search_path: list[str]
    """The folders of `sys.path` in the engine's process."""


class ProgressReported(Struct, frozen=True, tag="progress"):
    """The tool reports progress. A thread that the tool left running may report during the worker's next job."""

    call_id: str
    progress: Json


class FaultReported(Struct, frozen=True, tag="fault"):
    """The tool's own code has raised an error other than `ToolError`; `JobEnded` follows."""

    traceback: str
    """For the log."""


class JobEnded(Struct, frozen=True, tag="ended"):
    """The tool's outcome: one of these. With `pending`, the result comes later."""

    success: Success | None = None
    failure: Failure | None = None
    pending: Pending | None = None

    @property
    def result(self) -> Success | Failure | Pending:
        """The one that the worker sent."""
        return self.success or self.failure or self.pending or Failure("execution_failed", "The worker sent no result.")


WorkerReply: TypeAlias = ProgressReported | FaultReported | JobEnded


def decode_job(payload: bytes) -> Job:
    """Return the job. Raises `msgspec.DecodeError` when the payload is not a job."""
    return msgspec.msgpack.decode(payload, type=Job)


def decode_reply(payload: bytes) -> WorkerReply:
    """Return the reply of a worker. Raises `msgspec.DecodeError` when the payload is not a reply."""
    return _reply_decoder().decode(payload)


@cache
def _reply_decoder() -> "msgspec.msgpack.Decoder[WorkerReply]":
    """Return the decoder. It is made at the first reply: that takes a while, and most processes have no workers."""
    return msgspec.msgpack.Decoder(WorkerReply)
