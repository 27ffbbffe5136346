"""A conversation over the gateway, with a tool that this program brings along.

python -m examples.chat --url http://127.0.0.1:42617 --token TOKEN ["What time is it in Tokyo?"] [--check]
"""

import asyncio
import random

from examples.gateway import arguments, run, show
from handspan.client import Chat, Client
from handspan.core.events import CallFinished, CallStarted, Ended, QuestionAsked, TextArrived


def roll_dice(count: int = 1, sides: int = 6) -> list[int]:
    """Roll some dice."""
    return [random.randint(1, sides) for _ in range(count)]


async def say(chat: Chat, words: str) -> Ended | None:
    """One turn, shown as it happens; how it ended."""
    ended: Ended | None = None
    async for event in chat.send(words):
        match event:
            case TextArrived(text=text):
                show(text, end="")
            case CallStarted(name=name, arguments=given):
                show(f"[{name} {given}]")
            case CallFinished(name=name, status=status):
                show(f"[{name}: {status}]")
            case QuestionAsked(question=question):
                reply = await asyncio.to_thread(input, f"{question.tool}: {question.subject} Allow? [y/N] ")
                await chat.answer(question.id, "allow" if reply.lower().startswith("y") else "deny")
            case Ended():
                ended = event
    show("")
    return ended


async def main() -> None:
    """Talk."""
    parser = arguments("A conversation over the gateway.")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    client = Client(given.url, given.token)
    client.tool(roll_dice)
    async with client.chat() as chat:
        assert chat.rejected == {}, chat.rejected
        words = " ".join(given.words) or ("What time is it in Tokyo?" if given.check else "")
        if words:
            ended = await say(chat, words)
            assert ended is not None
            assert ended.reason == "done", ended
            return
        while line := (await asyncio.to_thread(input, "you: ")).strip():
            await say(chat, line)


if __name__ == "__main__":
    run(main())
