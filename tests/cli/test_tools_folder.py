"""A person's own tool beside a gateway that runs: as the README shows it, and when it is broken (SPEC T6)."""

import pytest

from tests.cli.gateways import listed, serving
from tests.cli.shell import Shell
from tests.test_readme import blocks

pytestmark = pytest.mark.outside

DICE = next(block for block in blocks("python") if "roll_dice" in block)


def test_a_tool_that_is_written_beside_a_running_gateway_works_at_once(run: Shell) -> None:
    with serving(run) as gateway:
        missing = run("call", "roll_dice", '{"count": 3}')
        assert missing.returncode == 1 and '"code":"tool_not_found"' in missing.stdout

        run.tool("dice", DICE)
        rolled = run("call", "roll_dice", '{"count": 3}')
        assert rolled.returncode == 0 and '"status":"success"' in rolled.stdout
        assert listed(run)["roll_dice"]["origin"] == "plugin(dice)"

        run.tool("dice", DICE.replace("@tool", "@tool("))
        broken = run("call", "roll_dice")
        assert '"code":"tool_not_found"' in broken.stdout
        assert "dice.py: SyntaxError" in broken.stderr and "dice.py: SyntaxError" in run("tools").stderr
        reloaded = run("tools", "reload")
        assert reloaded.returncode == 1 and "dice.py: SyntaxError" in reloaded.stderr
        gateway.until(r"dice\.py can't be used: SyntaxError")

        run.tool("dice", DICE)
        done = run("tools", "reload")
        assert (done.returncode, done.stdout) == (0, "The tools folder has 1 tool.\n")


def test_a_tool_that_other_users_can_write_is_not_run_and_doctor_says_what_to_type(run: Shell) -> None:
    run.tool("dice", DICE)
    file = run.home / ".config" / "handspan" / "tools" / "dice.py"
    file.chmod(0o666)
    refused = run("call", "roll_dice", '{"count": 3}')
    assert refused.returncode == 1 and '"code":"tool_not_found"' in refused.stdout
    found = run("doctor", "--embedded")
    assert found.returncode == 1 and f"chmod o-w {file}" in found.stdout
    file.chmod(0o644)
    assert run("call", "roll_dice", '{"count": 3}').returncode == 0


def test_settings_that_other_users_can_write_start_nothing(run: Shell) -> None:
    file = run.home / ".config" / "handspan" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("", encoding="utf-8")
    file.chmod(0o666)
    for words in (("serve", "--port", "0"), ("config", "check"), ("doctor",), ("call", "current_time")):
        done = run(*words)
        assert done.returncode in (1, 2) and f"chmod o-w {file}" in done.stdout + done.stderr, words


def test_an_isolated_tool_that_changes_is_run_in_its_new_version(run: Shell) -> None:
    code = "from handspan import tool\n\n@tool(isolated=True)\ndef version() -> int:\n    'Say it.'\n    return {}\n"
    with serving(run):
        for number in (1, 2):
            run.tool("version", code.format(number))
            run("tools", "reload")
            assert f'"result":{number}' in run("call", "version").stdout
