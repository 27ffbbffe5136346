"""Writes the JSON Schema of every frame and body to `protocol/schema/`; with `--check`, says what is not as written.

    python scripts/protocol_schemas.py [--check]

The classes of `wire/ws_frames.py`, `wire/ws_chat_frames.py`, `wire/graph/`, `wire/cetp.py` and `wire/cetp_manifest.py`
are the one source: their docstrings and the words under their fields are the descriptions here.
"""

import ast
import inspect
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from handspan.core import events
from handspan.wire import cetp, cetp_manifest, ws, ws_chat_frames, ws_frames
from handspan.wire.graph import answers, blocks, faults, memories, requests

FOLDER = Path(__file__).parents[1] / "protocol" / "schema"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
GRAPH = (answers, blocks, faults, memories, requests)

REQUESTS: dict[str, tuple[Any, str]] = {
    "invoke": (requests.InvokeBody, "The body of invoke and stream"),
    "setup": (requests.SetupBody, "The body of setup"),
    "stop": (requests.OneThreadBody, "The body of stop"),
    "fix": (requests.OneThreadBody, "The body of fix"),
    "answer": (requests.AnswerBody, "The body that answers a question"),
    "ws_fresh": (requests.FreshBody, "A WebSocket message that begins a run"),
    "ws_resume": (requests.ResumeBody, "A WebSocket message that brings results"),
    "ws_stop": (requests.StopBody, "A WebSocket message that stops the run"),
    "add_messages": (requests.AddBody, "The body that puts messages into a thread"),
    "put_state": (requests.StateBody, "The body that puts a state to a thread"),
    "store_memory": (memories.StoreBody, "The body that keeps a memory"),
    "search_memories": (memories.SearchBody, "The body that looks for memories"),
    "list_memories": (memories.ListBody, "The body that lists memories"),
    "update_memory": (memories.UpdateBody, "The body that changes a memory"),
    "forget_memories": (memories.ForgetBody, "The body that removes memories"),
}
ANSWERS: dict[str, tuple[Any, str]] = {
    "success": (answers.SuccessBody, "Every success; the other files here say what its data is"),
    "failure": (answers.FailureBody, "Every error"),
    "invoke": (answers.InvokeAnswer, "The data of invoke"),
    "chunk": (answers.GraphChunk, "A line of a stream, a message of the WebSocket"),
    "message": (answers.GraphMessage, "A message; the data of one message of a thread"),
    "setup": (answers.SetupAnswer, "The data of setup"),
    "stop": (answers.StopAnswer, "The data of stop"),
    "fix": (answers.FixAnswer, "The data of fix"),
    "answer": (answers.AnswerTaken, "The data of an answer to a question"),
    "threads": (answers.ThreadsAnswer, "The data of the list of threads"),
    "thread": (answers.ThreadAnswer, "The data of one thread"),
    "state": (answers.StateAnswer, "The data of the state of a thread"),
    "messages": (answers.MessagesAnswer, "The data of the messages of a thread"),
    "done": (answers.DoneAnswer, "The data of what only has to be done"),
    "graph": (answers.GraphAnswer, "The data of the graph"),
    "tools": (answers.ToolsAnswer, "The data of the tools of the graph"),
    "upload": (answers.UploadAnswer, "The data of an upload"),
    "file": (answers.FileAnswer, "The data of what is known of a file"),
    "file_url": (answers.FileUrlAnswer, "The data of where a file is"),
    "multimodal": (answers.MultimodalAnswer, "The data of the limits of files"),
    "memory_stored": (memories.StoredAnswer, "The data of a memory that is kept"),
    "memories_found": (memories.FoundAnswer, "The data of a search"),
    "memory": (memories.MemoryAnswer, "The data of one memory"),
    "memories": (memories.MemoriesAnswer, "The data of the list of memories"),
    "memory_changed": (memories.ChangedAnswer, "The data of a change of memories"),
}
CETP: dict[str, tuple[Any, str]] = {
    "request": (cetp.CetpRequest, "A request to a provider"),
    "execute_extras": (cetp.ExecuteExtras, "The extras of execute_tool"),
    "success": (cetp.CetpSuccess, "The response to a request that succeeded"),
    "error": (cetp.CetpError, "The response to a request that failed"),
    "tools": (cetp.ToolsData, "What the data of list_tools holds"),
    "info": (cetp.ProviderInfo, "What the data of get_provider_info holds"),
    "manifest": (cetp_manifest.ProviderManifest, "The manifest of a provider on the desktop"),
}


def main() -> int:
    """Write the files, or compare them."""
    wanted = dict(schema_files())
    if "--check" in sys.argv[1:]:
        wrong = differences(wanted)
        said = "".join(f"{name}: {why}\n" for name, why in wrong.items())
        sys.stdout.write(said or "protocol/schema: as it should be\n")
        return 1 if wrong else 0
    for name in differences(wanted):
        (FOLDER / name).unlink(missing_ok=True)
    for name, text in wanted.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def differences(wanted: dict[str, str]) -> dict[str, str]:
    """What is wrong in the folder, by the name of the file."""
    there = {str(path.relative_to(FOLDER)): path for path in FOLDER.rglob("*.json")}
    wrong = dict.fromkeys(there.keys() - wanted.keys(), "belongs to no frame and no body: remove it")
    for name, text in wanted.items():
        if name not in there:
            wrong[name] = "is missing: run scripts/protocol_schemas.py"
        elif there[name].read_text(encoding="utf-8") != text:
            wrong[name] = "is not what the classes of wire/ say: run scripts/protocol_schemas.py"
    return dict(sorted(wrong.items()))


def schema_files() -> Iterator[tuple[str, str]]:
    """Every file's name and text."""
    for side, frames in (("client", ws.ClientFrame), ("server", ws.ServerFrame)):
        for frame in get_args(frames):
            tag = frame.__struct_config__.tag
            yield f"{side}/{tag}.json", written(schema(frame, f"{tag}, from the {side}"))
    yield "tool.json", written(schema(ws_frames.Offer, "An entry of register_tools"))
    yield "event.json", written(schema(events.Event, "What an event frame holds"))
    for name, (body, title) in REQUESTS.items():
        yield f"graph/request/{name}.json", written(request_schema(body, title))
    for name, (body, title) in ANSWERS.items():
        yield f"graph/answer/{name}.json", written(answer_schema(body, title))
    for name, (body, title) in CETP.items():
        yield f"cetp/{name}.json", written(schema(body, title))


def request_schema(body: Any, title: str) -> dict[str, Any]:
    """The schema of a body; entries of `tools` have one of two forms, which no type can say."""
    if "tools" not in body.__struct_fields__:
        return schema(body, title)
    forms = (requests.OfferedTool, requests.OpenAiTool)
    found = schema(body, title, forms)
    tools = found["properties"]["tools"]
    for part in tools.get("anyOf", [tools]):
        if part.get("type") == "array":
            part["items"] = {"anyOf": [{"$ref": f"#/$defs/{form.__name__}"} for form in forms]}
    return found


def answer_schema(body: Any, title: str) -> dict[str, Any]:
    """The schema of an answer: what is always sent is required, whether it has a default or not."""
    found = schema(body, title)
    for name, described in ((body.__name__, found), *found.get("$defs", {}).items()):
        kind = _class(name, GRAPH)
        if kind is not None and not kind.__struct_config__.omit_defaults:
            described["required"] = list(described["properties"])
    return found


def schema(kind: Any, title: str, beside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The schema of one type, with everything that it refers to inside, and these."""
    (root, *_), definitions = msgspec.json.schema_components([kind, *beside], ref_template="#/$defs/{name}")
    top = definitions.pop(root["$ref"].rpartition("/")[2]) if "$ref" in root else root
    for name, described in definitions.items():
        _describe(described, name)
    _describe(top, getattr(kind, "__name__", ""))
    top.pop("title", None)
    whole = {"$schema": DRAFT, "title": title, **top}
    return {**whole, "$defs": definitions} if definitions else whole


def written(value: dict[str, Any]) -> str:
    """As a file has it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _describe(described: dict[str, Any], name: str) -> None:
    """Add the words that stand under the fields of a class."""
    for field, words in _words(name).items():
        if field in described.get("properties", {}):
            described["properties"][field]["description"] = words


def _words(name: str) -> dict[str, str]:
    found = _class(name, (ws_frames, ws_chat_frames, events, *_below(events), *GRAPH, cetp, cetp_manifest))
    if found is None:
        return {}
    body = ast.parse(inspect.getsource(found)).body[0]
    assert isinstance(body, ast.ClassDef)
    return dict(_fields_with_words(body.body))


def _class(name: str, modules: Iterable[Any]) -> Any:
    """The class of this name that one of these modules defines; None when there is none."""
    defined = (getattr(module, name, None) for module in modules)
    return next((found for found in defined if inspect.isclass(found) and _is_of(found, modules)), None)


def _is_of(found: type, modules: Iterable[Any]) -> bool:
    return any(found.__module__ == module.__name__ for module in modules)


def _fields_with_words(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            words = after.value.value if isinstance(after.value, ast.Constant) else None
            if isinstance(words, str):
                yield field.target.id, " ".join(words.split())


def _below(module: Any) -> list[Any]:
    """The modules that a module takes classes from."""
    names = {found.__module__ for found in vars(module).values() if inspect.isclass(found)}
    return [sys.modules[name] for name in sorted(names) if name.startswith("handspan.")]


if __name__ == "__main__":
    sys.exit(main())
