"""A device's link is cut while a call runs. The link comes back, the call goes on: it ran once, and is answered.

python -m examples.healing --url http://127.0.0.1:42617 --token TOKEN
"""

import asyncio

from examples.gateway import arguments, call, run, show
from handspan.client import Backoff, CallContext, Client
from handspan.testing import FaultProxy


async def main() -> None:
    """Let it break."""
    given = arguments("A link that is cut in mid-call and heals.").parse_args()
    began, dropped, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    runs: list[str] = []

    def became(state: str) -> None:
        show(f"device: {state}")
        if state == "reconnecting":
            dropped.set()

    async with FaultProxy(given.url) as proxy:
        client = Client(
            proxy.url,
            given.token,
            label="fragile",
            backoff=Backoff(first=0.2),
            on_state=became,
        )

        @client.tool
        async def develop_film(ctx: CallContext) -> str:
            """Develop a film, which takes its time."""
            runs.append(ctx.call_id)
            began.set()
            await may_end.wait()
            return "24 pictures"

        async with client:
            calling = asyncio.create_task(call(given.url, given.token, f"{client.label}__develop_film"))
            await began.wait()
            show("the call runs: cutting the link")
            proxy.cut()
            await dropped.wait()
            may_end.set()
            show("the code has ended, and nobody is there to hear it")
            answer = await calling
            show(f"answer: {answer}")
    assert answer == {"status": "success", "result": "24 pictures"}, answer
    assert len(runs) == 1, runs
    assert proxy.statistics.cut >= 1


if __name__ == "__main__":
    run(main())
