"""A program: an MCP server with one tool, which writes down each call that it runs. It needs nothing of ours."""

import json
import sys
import time
from typing import Any

_TOOL = {
    "name": "lift",
    "description": "Lift a parcel.",
    "inputSchema": {"type": "object", "properties": {"parcel": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


def _result(request: dict[str, object], log: str) -> dict[str, object]:
    params: Any = request.get("params")
    match request["method"]:
        case "initialize":
            version, info = params["protocolVersion"], {"name": "counting", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/call":
            parcel = params["arguments"]["parcel"]
            with open(log, "a") as runs:  # one short write: whole lines, whichever process writes them
                runs.write(f"{parcel}\n")
            time.sleep(0.02)
            return {"content": [{"type": "text", "text": parcel}]}
    return {"tools": [_TOOL]}


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received and "method" in received:
        known = received["method"] in ("initialize", "tools/list", "tools/call")
        error = {"error": {"code": -32601, "message": "Method not found"}}
        answer = {"result": _result(received, sys.argv[1])} if known else error
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": received["id"], **answer}) + "\n")
        sys.stdout.flush()
