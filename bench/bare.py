"""The floor: the same work with nothing around it. Needs only Python, so that peers are held against the same floor."""

import json
from typing import Any

ARGUMENTS = {"a": 2, "b": 3}


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def bare_call() -> str:
    """What can't be saved: the call itself, and its result as JSON."""
    return json.dumps(await add(**ARGUMENTS))


async def bare_loop(rounds: int) -> list[dict[str, Any]]:
    """A conversation of so many calls: dicts, a model function, JSON in and out."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]

    async def model(step: int) -> dict[str, Any]:
        if step == rounds:
            return {"role": "assistant", "content": "done"}
        calls = [{"id": f"c{step}", "name": "add", "arguments": json.dumps({"a": step, "b": 3})}]
        return {"role": "assistant", "tool_calls": calls}

    async def run(call: dict[str, str]) -> dict[str, str]:
        result = await add(**json.loads(call["arguments"]))
        return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}

    for step in range(rounds + 1):
        said = await model(step)
        messages.append(said)
        messages += [await run(call) for call in said.get("tool_calls", ())]
    return messages
