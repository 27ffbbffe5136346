"""A program: an MCP server that sleeps a second before it answers, without the SDK and with as few imports as possible.

Twenty of them share the machine with what is measured (`mcp_start_20_s`): their own start must not be the figure.
"""

import sys
import time

time.sleep(1)

import json  # noqa: E402 - loaded after the sleep: the second is what a real server takes to load

SPEC = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    request = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": request.get("id")}
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            about = {"name": "slow", "version": "1"}
            answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            answer["result"] = {"tools": [SPEC]}
        case _:
            answer["error"] = {"code": -32601, "message": "Method not found"}
    if "id" in request:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
