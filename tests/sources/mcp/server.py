"""A program: an MCP server that behaves as badly as its options say. It speaks the older era, without the SDK.

It runs alone, with nothing of ours, so that it starts at once.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
NOTHING = {"type": "object", "properties": {}}
HIDDEN = {
    "type": "object",
    "properties": {"a": {"type": "string", "description": "A\u202e name.", "enum": ["x\u200b"]}},
}
TOOLS = [
    {"name": "echo", "description": "Say it again.", "inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    {"name": "die", "description": "End the process.", "inputSchema": NOTHING},
    {"name": "hang", "description": "Never answer.", "inputSchema": NOTHING},
    {"name": "wait", "description": "Answer as soon as there is a file at this path.", "inputSchema": TEXT},
    {"name": "raw", "description": "Answer with this JSON.", "inputSchema": TEXT},
    {"name": "fail", "description": "Fail.", "inputSchema": NOTHING},
    {"name": "rich", "description": "Answer with all kinds of content.", "inputSchema": NOTHING},
    {"name": "environment", "description": "Tell the environment.", "inputSchema": NOTHING},
    {"name": "family", "description": "Start a process that leaves the group.", "inputSchema": NOTHING},
    {"name": "steps", "description": "Report progress.", "inputSchema": NOTHING},
    {"name": "ask", "description": "Ask the person.", "inputSchema": NOTHING},
    {"name": "announce", "description": "Say that the list has changed.", "inputSchema": NOTHING},
    {"name": "hidden", "description": "Looks\u202e harm\u200bless\U000e0041.", "inputSchema": HIDDEN},
    {"name": "odd name!", "description": "Its name fits no model.", "inputSchema": NOTHING},
    {"name": "read_file", "description": "Named like a built-in.", "inputSchema": NOTHING},
]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

parser = argparse.ArgumentParser()
parser.add_argument("--log", type=Path)
parser.add_argument("--tools", type=Path, help="a file with the list of tools, read each time")
parser.add_argument("--count", type=int, default=0, help="list so many tools")
parser.add_argument("--sleep", type=float, default=0.0)
parser.add_argument("--mute", action="store_true", help="never answer anything")
parser.add_argument("--garbage", action="store_true", help="write words between the messages")
parser.add_argument("--flood", type=int, default=0, help="write so many lines to standard error")
parser.add_argument("--endless", action="store_true", help="write one line without an end")
parser.add_argument("--resources", type=Path, help="offer resources, and die with the next list once this is a file")
parser.add_argument("--prompts", action="store_true", help="offer a prompt")
parser.add_argument("--nag", action="store_true", help="answer a call with requests of its own, without an end")
parser.add_argument("--restless", action="store_true", help="say after each list that it has changed")
parser.add_argument("--hold-list", type=Path, help="answer no list while this is a file")
parser.add_argument("--quit", action="store_true", help="end at once")
options = parser.parse_args()
lock = threading.Lock()
answers: dict[Any, Any] = {}
answered = threading.Condition()


def note(text: str) -> None:
    if options.log:
        with options.log.open("a") as log:
            log.write(f"{text}\n")


def send(message: dict[str, Any], raw: str = '"?"') -> None:
    with lock:
        if options.garbage:
            print("this is no message")
        print(json.dumps({"jsonrpc": "2.0", **message}).replace('"?"', raw), flush=True)


def listed() -> list[Any]:
    if options.tools:
        return list(json.loads(options.tools.read_text()))
    many = [{"name": f"tool_{n}", "description": f"Tool {n}.", "inputSchema": TEXT} for n in range(options.count)]
    return TOOLS + many


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def ask_person() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    send(
        {"id": "ask", "method": "elicitation/create", "params": {"message": "Which colour?", "requestedSchema": schema}}
    )
    with answered:
        answered.wait_for(lambda: "ask" in answers)
    return text(json.dumps(answers.pop("ask")))


def call(request: dict[str, Any]) -> dict[str, Any] | None:
    params = request["params"]
    match params["name"]:
        case "echo":
            return text(params["arguments"].get("text", ""))
        case "die":
            os._exit(3)
        case "hang":
            return None
        case "wait":
            while not Path(params["arguments"]["text"]).exists():
                time.sleep(0.02)
            return text("it is there")
        case "raw":  # a value that is written as it is given
            send({"id": request["id"], "result": text("", structuredContent={"n": "?"})}, params["arguments"]["text"])
            return None
        case "fail":
            return text("It went wrong.", isError=True)
        case "rich":
            link = {"type": "resource_link", "name": "file", "uri": "file:///a.txt"}
            image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            return {"content": [{"type": "text", "text": "see"}, image, link], "structuredContent": {"n": 1}}
        case "environment":
            return text(json.dumps(dict(os.environ)))
        case "family":
            child = subprocess.Popen(["sleep", "600"], start_new_session=True)
            return text(str(child.pid))
        case "steps":
            token = params["_meta"]["progressToken"]
            for step in (1, 2):
                progress = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
                send({"method": "notifications/progress", "params": progress})
            return text("done")
        case "ask":
            return ask_person()
        case "announce":
            send({"method": "notifications/tools/list_changed"})
            return text("announced")
    return text(params["name"])


def serve(request: dict[str, Any]) -> None:
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "bad", "version": "1"}
            capabilities = {"tools": {"listChanged": True}, **({"resources": {}} if options.resources else {})}
            capabilities |= {"prompts": {}} if options.prompts else {}
            result: Any = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            while options.hold_list and options.hold_list.exists():
                time.sleep(0.02)
            result = {"tools": listed()}
        case "prompts/list" if options.prompts:
            review = {"name": "review", "description": "Review\u202e code.", "arguments": [{"name": "path"}]}
            result = {"prompts": [review]}
        case "resources/list" if options.resources:
            if options.resources.exists():
                os._exit(3)
            result = {"resources": [{"uri": "file:///a", "name": "a"}]}
        case "tools/call":
            result = call(request)
            if result is None:
                return
        case _:
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
            return
    send({"id": request["id"], "result": result})
    if options.restless and request["method"] == "tools/list":
        send({"method": "notifications/tools/list_changed"})


def receive(message: dict[str, Any]) -> None:
    note(str(message.get("method", "answer")))
    while options.nag and message.get("method") == "tools/call":  # and it reads no more
        send({"id": 1, "method": "ping"})
    if "method" not in message:
        with answered:
            answers[message["id"]] = message.get("result", message.get("error"))
            answered.notify_all()
    elif "id" in message and not options.mute:
        threading.Thread(target=serve, args=[message], daemon=True).start()


note("start")
time.sleep(options.sleep)
for number in range(options.flood):
    print(f"line {number}", file=sys.stderr)
while options.endless:
    sys.stdout.write("x" * 65536)
if not options.quit:
    for line in sys.stdin:
        receive(json.loads(line))
