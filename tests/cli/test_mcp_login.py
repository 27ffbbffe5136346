"""`handspan mcp login` as a person runs it, with and without a gateway, with a browser here or elsewhere (SPEC P6)."""

import asyncio
import json
import queue
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from tests.cli.gateways import serving
from tests.cli.shell import Shell, Terminal
from tests.gateway.mcp.oauth_site import OauthSite, oauth_site

NAME = "notes"


@contextmanager
def site_on_a_thread() -> Iterator[OauthSite]:
    started: queue.Queue[tuple[OauthSite, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def work() -> None:
        end = asyncio.Event()
        async with oauth_site() as site:
            started.put((site, asyncio.get_running_loop(), end))
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    site, loop, end = started.get(timeout=60)
    try:
        yield site
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def address_on(terminal: Terminal) -> str:
    found = re.search(r"http://\S+/authorize\S+", terminal.until(r"http://\S+/authorize\S+\s"))
    assert found is not None
    return found[0]


def test_a_person_logs_in_with_a_browser_and_the_command_waits_for_it(run: Shell) -> None:
    with site_on_a_thread() as site, serving(run):
        added = run("mcp", "add", NAME, site.mcp_url)
        assert f"needs a login: handspan mcp login {NAME}" in added.stdout
        with run.at_terminal("mcp", "login", NAME) as terminal:
            with httpx2.Client(follow_redirects=True, timeout=60) as browser:
                assert browser.get(address_on(terminal)).status_code == 200
            terminal.until(f"You are logged in at '{NAME}'")
            assert terminal.ended() == 0
        tested = json.loads(run("mcp", "test", NAME, "--json").stdout)
        assert (tested["status"], tested["tools"]) == ("ready", [f"{NAME}__erase", f"{NAME}__hello"])
        assert "is removed" in run("mcp", "logout", NAME).stdout
        assert run("mcp", "test", NAME).returncode == 1


def test_without_a_browser_here_the_person_pastes_the_address(run: Shell) -> None:
    with site_on_a_thread() as site:
        run("mcp", "add", NAME, site.mcp_url)
        with run.at_terminal("mcp", "login", NAME) as terminal:
            with httpx2.Client(timeout=60) as browser:
                back = browser.get(address_on(terminal)).headers["location"]
            terminal.say("http://127.0.0.1/?state=wrong")
            terminal.until("belongs to no open login")
            terminal.say(back)
            terminal.until(f"You are logged in at '{NAME}'")
            assert terminal.ended() == 0
        assert run("mcp", "test", NAME).returncode == 0


def test_a_server_that_takes_no_login_says_so(run: Shell) -> None:
    run("mcp", "add", "gone", "--", "/nowhere/gone")
    for words in (("gone", "find", "{"), ("gone", "find", "[]"), ("nothing", "find")):
        done = run("mcp", "call", *words)  # as `handspan call`: one line, and 1 for what failed
        (line,) = done.stdout.splitlines()
        assert done.returncode == 1 and json.loads(line)["status"] == "error", words
    done = run("mcp", "login", "gone", "--json")
    assert done.returncode == 1 and "only a server at an address" in json.loads(done.stdout)["error"]
