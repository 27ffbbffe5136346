"""A gateway that is killed in the middle of a run (SPEC F2, F3)."""

from pathlib import Path
from typing import Any

import openai
import pytest

from handspan.core.principals import OPERATOR
from handspan.gateway.sessions import brief
from handspan.testing.process import SPOKEN, GatewayProcess
from tests.gateway.openai.kit import ASK_WEATHER, WEATHER, Front, user
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

TOOL = '''
from pathlib import Path
from handspan import tool
import time

@tool
def wait_here(path: str) -> str:
    """Waits until its file is gone."""
    Path(path).write_text("at work")
    while Path(path).exists():
        time.sleep(0.01)
    return "done"
'''


async def test_a_chat_with_a_key_goes_on_and_its_tool_does_not_run_twice(tmp_path: Path) -> None:
    tools, flag = tmp_path / "config" / "tools", tmp_path / "flag"
    tools.mkdir(parents=True)
    (tools / "wait.py").write_text(TOOL)
    script = f'call wait_here {{"path": "{flag}"}}\nthen\n{{results}}'
    asked: Any = {"model": "handspan", "messages": [user(script)], "extra_headers": {"X-Chat-Id": "c"}}
    async with GatewayProcess(tmp_path, "--config", str(tmp_path / "config"), model=SPOKEN) as gateway:
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.token, max_retries=0, timeout=60)
        stream = await client.chat.completions.create(stream=True, **{**asked, "messages": [user(f"Wait.\n{script}")]})
        await until(flag.exists)
        await gateway.kill()
        with pytest.raises(openai.APIConnectionError):
            async for _ in stream:
                pass
        flag.unlink()
        await gateway.start()
        answer = await client.chat.completions.create(**{**asked, "messages": [user(f"Wait.\n{script}")]})
        assert "unknown_outcome" in str(answer.choices[0].message.content)
        assert not flag.exists()
        await client.close()


async def test_what_requests_without_a_key_left_is_removed(there: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await there.ask(ASK_WEATHER, tools=[WEATHER])  # its client never comes back
    assert answer.choices[0].finish_reason == "tool_calls"
    (session,) = await there.sessions()
    monkeypatch.setattr(brief, "_LEFT_SECONDS", -60.0)
    await there.parts.brief.remove_left()
    assert await there.sessions() == [session]  # it waits
    await there.parts.sessions.get(session, OPERATOR.owner).give_up(OPERATOR).wait_for_end()
    await there.parts.brief.remove_left()
    assert await there.sessions() == []
