"""One round of a peer's agent loop with a model that answers at once, against the floor of our `loop_round`.

Runs where only that peer is installed, and prints the figures as JSON. A round is what ten rounds take beyond a run
without any: what a peer does once for a run does not count, as the making of a session does not in ours.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from bench.bare import bare_loop
from bench.peers.slices import Slice, best_cpu

FEW, MANY = 10, 50
TURNS = 10

Run: TypeAlias = Callable[[], Awaitable[object]]
"""One run of the peer's agent; gives its last words."""


class Script:
    """What the fake model says in one run: so many calls of `add`, then "done"."""

    def __init__(self) -> None:
        self.rounds = 0
        self.said = 0
        self.added = 0

    def begin(self, rounds: int) -> None:
        """Play a run of so many rounds."""
        self.rounds, self.said, self.added = rounds, 0, 0

    def arguments(self) -> dict[str, int] | None:
        """The next call's arguments; None when it is time for the last words."""
        if self.said == self.rounds:
            return None
        self.said += 1
        return {"a": self.said, "b": 3}

    def tool(self) -> Callable[[int, int], Awaitable[int]]:
        """The function to be called; it counts, since most peers would go on after an error without a word."""

        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.added += 1
            return a + b

        return add


def pydantic_ai(script: Script) -> Run:
    """Its `Agent` with a `FunctionModel`."""
    from pydantic_ai import Agent  # noqa: PLC0415 - only one peer is installed
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: PLC0415
    from pydantic_ai.models.function import FunctionModel  # noqa: PLC0415
    from pydantic_ai.usage import UsageLimits  # noqa: PLC0415

    def reply(messages: object, info: object) -> Any:
        arguments = script.arguments()
        if arguments is None:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("add", json.dumps(arguments), tool_call_id=f"c{script.said}")])

    agent = Agent(FunctionModel(reply), tools=[script.tool()])
    unlimited = UsageLimits(request_limit=None)

    async def run() -> object:
        return (await agent.run("go", usage_limits=unlimited)).output

    return run


def openai_agents(script: Script) -> Run:
    """Its `Runner`, with tracing off."""
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool  # noqa: PLC0415
    from openai.types.responses import (  # noqa: PLC0415
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    def item() -> Any:
        arguments = script.arguments()
        if arguments is None:
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ResponseFunctionToolCall(
            type="function_call", name="add", arguments=json.dumps(arguments), call_id=f"c{script.said}"
        )

    class Instant(Model):  # type: ignore[misc]  # the peer is not there for mypy
        async def get_response(self, *_: object, **__: object) -> Any:
            return ModelResponse(output=[item()], usage=Usage(), response_id=None)

        def stream_response(self, *_: object, **__: object) -> Any:
            raise RuntimeError("nobody streams here")

    agent = Agent(name="bench", instructions="Add.", model=Instant(), tools=[function_tool(script.tool())])
    quiet = RunConfig(tracing_disabled=True)

    async def run() -> object:
        return (await Runner.run(agent, "go", max_turns=script.rounds + 2, run_config=quiet)).final_output

    return run


def langchain_create_agent(script: Script) -> Run:
    """LangChain's `create_agent`."""
    from langchain.agents import create_agent  # noqa: PLC0415 - only one peer is installed

    return _graph(create_agent, script)


def langgraph_react(script: Script) -> Run:
    """LangGraph's `create_react_agent`."""
    from langgraph.prebuilt import create_react_agent  # noqa: PLC0415 - only one peer is installed

    return _graph(create_react_agent, script)


def _graph(create: Callable[..., Any], script: Script) -> Run:
    from langchain_core.language_models.chat_models import BaseChatModel  # noqa: PLC0415
    from langchain_core.messages import AIMessage  # noqa: PLC0415
    from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: PLC0415
    from langchain_core.tools import StructuredTool  # noqa: PLC0415

    class Instant(BaseChatModel):  # type: ignore[misc]  # the peer is not there for mypy
        _llm_type = "instant"

        def bind_tools(self, *_: object, **__: object) -> Any:
            return self

        def _generate(self, *_: object, **__: object) -> Any:
            arguments = script.arguments()
            calls = [] if arguments is None else [{"name": "add", "args": arguments, "id": f"c{script.said}"}]
            said = AIMessage("" if calls else "done", tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=said)])

        async def _agenerate(self, *_: object, **__: object) -> Any:
            return self._generate()

    tool = StructuredTool.from_function(coroutine=script.tool(), name="add", description="Add two numbers.")
    graph = create(Instant(), [tool])

    async def run() -> object:
        limits = {"recursion_limit": 4 * script.rounds + 10}
        state = await graph.ainvoke({"messages": [{"role": "user", "content": "go"}]}, limits)
        return state["messages"][-1].content

    return run


def google_adk(script: Script) -> Run:
    """Its `Runner` with sessions in memory, a new one for each run."""
    from google.adk.agents import Agent  # noqa: PLC0415 - only one peer is installed
    from google.adk.models import BaseLlm, LlmResponse  # noqa: PLC0415
    from google.adk.runners import Runner  # noqa: PLC0415
    from google.adk.sessions import InMemorySessionService  # noqa: PLC0415
    from google.genai.types import Content, FunctionCall, Part  # noqa: PLC0415

    class Instant(BaseLlm):  # type: ignore[misc]  # the peer is not there for mypy
        async def generate_content_async(self, *_: object, **__: object) -> AsyncIterator[Any]:
            arguments = script.arguments()
            call = None if arguments is None else FunctionCall(id=f"c{script.said}", name="add", args=arguments)
            part = Part(text="done") if call is None else Part(function_call=call)
            yield LlmResponse(content=Content(role="model", parts=[part]))

    agent = Agent(name="bench", model=Instant(model="instant"), instruction="Add.", tools=[script.tool()])
    sessions = InMemorySessionService()
    runner = Runner(app_name="bench", agent=agent, session_service=sessions)

    async def run() -> object:
        session = await sessions.create_session(app_name="bench", user_id="somebody")
        said = None
        async for event in runner.run_async(
            user_id="somebody", session_id=session.id, new_message=Content(role="user", parts=[Part(text="go")])
        ):
            said = event.content.parts[-1].text if event.content and event.content.parts else said
        await sessions.delete_session(app_name="bench", user_id="somebody", session_id=session.id)
        return said

    return run


PEERS: dict[str, Callable[[Script], Run]] = {
    "pydantic_ai": pydantic_ai,
    "openai_agents": openai_agents,
    "langchain_create_agent": langchain_create_agent,
    "langgraph_react": langgraph_react,
    "google_adk": google_adk,
}


async def main(peer: str) -> None:
    """Print what a round costs: as a ratio to the floor, in microseconds, and in a run of 50 against one of 10."""
    script = Script()
    run = PEERS[peer](script)

    async def rounds(count: int) -> None:
        script.begin(count)
        said = await run()
        assert said == "done" and script.added == count, (said, script.added, count)

    slices = {
        "floor": Slice(partial(bare_loop, FEW), 100),
        "none": Slice(partial(rounds, 0), 4),
        "few": Slice(partial(rounds, FEW), 2),
        "many": Slice(partial(rounds, MANY), 1),
    }
    took = await best_cpu(slices, TURNS)
    round_of_few = (took["few"] - took["none"]) / FEW
    round_of_many = (took["many"] - took["none"]) / MANY
    floor = took["floor"] / (FEW + 1)
    print(
        json.dumps({"ratio": round_of_few / floor, "us": round_of_few * 1e6, "growth": round_of_many / round_of_few}),
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
