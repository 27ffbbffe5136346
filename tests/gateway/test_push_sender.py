"""One notification on its way to its push service: what is sent, tried again, forgotten and refused (SPEC J4)."""

from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec import structs
from py_vapid import Vapid02

from handspan.config.push_settings import PushSettings
from handspan.core.errors import ToolError
from handspan.gateway.push.sender import PushSender, SendOutcome
from handspan.net.guard import NetGuard
from handspan.net.policy import UrlPolicy
from handspan.wire.rest.push import Notice
from tests.gateway.push_service import Browser, PushService, push_service
from tests.waiting import soon

pytestmark = pytest.mark.anyio

NOTICE = Notice(kind="test", title="General asks", body="May it use shell?", url="#/questions", tag="q1")
SECRET = b"s" * 32


@pytest.fixture
async def service() -> AsyncIterator[PushService]:
    async with push_service() as service:
        yield service


def sender_for(service: PushService, guard: NetGuard | None = None) -> PushSender:
    settings = PushSettings(hosts=(service.url.removeprefix("http://"),))
    return PushSender(SECRET, guard or NetGuard(), settings, pauses=(0.0, 0.0, 0.0))


async def send(service: PushService, browser: Browser) -> SendOutcome:
    return await soon(sender_for(service).send(browser.subscription(), NOTICE, ttl=300.0, is_urgent=True))


async def test_the_browser_reads_the_notification_and_the_service_reads_who_sends_it(service: PushService) -> None:
    browser = Browser(service.url)
    assert await send(service, browser) == SendOutcome()
    ((_, headers, body),) = service.requests
    assert browser.read(body) == {
        "kind": "test",
        "title": "General asks",
        "body": "May it use shell?",
        "url": "#/questions",
        "tag": "q1",
    }
    assert Vapid02.verify(headers["authorization"])
    assert (headers["content-encoding"], headers["urgency"]) == ("aes128gcm", "high")
    assert 200 <= int(headers["ttl"]) <= 300


async def test_a_service_that_is_busy_or_broken_is_asked_again_a_few_times(service: PushService) -> None:
    service.answers = ["503 Busy", "429 Too Many Requests", "500 Broken"]
    assert await send(service, Browser(service.url)) == SendOutcome()
    assert len(service.requests) == 4
    service.answers = ["503 Busy"] * 9
    outcome = await send(service, Browser(service.url))
    assert "answered with the status 503" in outcome.problem and not outcome.is_forgotten
    assert len(service.requests) == 8


async def test_no_try_comes_when_the_notification_is_worth_nothing_any_more(service: PushService) -> None:
    service.answers = ["503 Busy\r\nRetry-After: 30"] * 2
    sender = sender_for(service)
    outcome = await soon(sender.send(Browser(service.url).subscription(), NOTICE, ttl=20.0, is_urgent=False))
    assert outcome.problem and len(service.requests) == 1
    assert service.requests[0][1]["urgency"] == "normal"


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone"])
async def test_a_browser_that_its_service_does_not_know_any_more_is_to_be_forgotten(
    service: PushService, status: str
) -> None:
    service.answers = [status]
    outcome = await send(service, Browser(service.url))
    assert outcome.is_forgotten and len(service.requests) == 1


@pytest.mark.parametrize("status", ["400 Bad Request", "403 Forbidden", "413 Too Large"])
async def test_other_refusals_are_not_tried_again(service: PushService, status: str) -> None:
    service.answers = [status]
    outcome = await send(service, Browser(service.url))
    assert status[:3] in outcome.problem and not outcome.is_forgotten and len(service.requests) == 1


async def test_an_answer_without_end_is_not_read_to_its_end(service: PushService) -> None:
    service.answers = ["endless"]
    assert await send(service, Browser(service.url)) == SendOutcome()


async def test_a_redirect_leads_nowhere(service: PushService) -> None:
    service.answers = [f"307 Temporary Redirect\r\nLocation: {service.url}/other"] * 9
    assert (await send(service, Browser(service.url))).problem
    assert {path for path, _, _ in service.requests} == {service.requests[0][0]}


async def test_no_error_names_the_endpoint_which_is_a_secret(service: PushService) -> None:
    browser = Browser("http://127.0.0.1:1")
    sender = PushSender(SECRET, NetGuard(), PushSettings(hosts=("127.0.0.1:1",)), pauses=())
    outcome = await soon(sender.send(browser.subscription(), NOTICE, ttl=60.0, is_urgent=True))
    assert "127.0.0.1" in outcome.problem and browser.endpoint not in outcome.problem
    service.answers = ["307 Temporary Redirect\r\nLocation: /other"]
    browser = Browser(service.url)
    assert browser.endpoint not in (await send(service, browser)).problem


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://127.0.0.1/send",
        "https://[::1]/send",
        "https://10.0.0.1:8443/send",
        "https://169.254.169.254/latest/meta-data",
        "https://0x7f000001/send",
        "http://push.example.com/send",
        "ftp://push.example.com/send",
        "https://push.example.com/" + "a" * 3000,
    ],
)
async def test_an_endpoint_that_is_private_or_not_https_is_refused(service: PushService, endpoint: str) -> None:
    subscription = structs.replace(Browser(service.url).subscription(), endpoint=endpoint)
    sender = sender_for(service)
    with pytest.raises(ToolError):
        sender.check(subscription)
    outcome = await soon(sender.send(subscription, NOTICE, ttl=60.0, is_urgent=True))
    assert outcome.problem and not service.requests


async def test_a_public_name_with_a_private_address_is_refused_when_it_is_looked_up(service: PushService) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    guard = NetGuard(UrlPolicy(), resolve=resolve)
    port = service.url.rpartition(":")[2]
    subscription = structs.replace(Browser(service.url).subscription(), endpoint=f"https://push.example.com:{port}/a")
    sender = sender_for(service, guard)
    sender.check(subscription)
    outcome = await soon(sender.send(subscription, NOTICE, ttl=60.0, is_urgent=True))
    assert "blocked private IP" in outcome.problem and not service.requests
