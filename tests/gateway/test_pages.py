"""What browsers load from the gateway: the SDK and the example pages."""

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from handspan.testing.gateway import running_gateway

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = "/examples/browser_tools/"


@pytest.fixture
async def anybody(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with running_gateway(tmp_path) as gateway, httpx2.AsyncClient(base_url=gateway.url, timeout=60) as client:
        client.headers["x-token"] = gateway.token  # nobody looks there: for the tests below
        yield client


def token(client: httpx2.AsyncClient) -> dict[str, str]:
    return {"authorization": f"Bearer {client.headers['x-token']}"}


@pytest.mark.parametrize("name", ["handspan", "agentflow", "browser", "device", "rest"])
async def test_the_sdk_is_a_module_that_everybody_may_load(anybody: httpx2.AsyncClient, name: str) -> None:
    answer = await anybody.get(f"/sdk/{name}.js")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "export{" in answer.text


async def test_the_example_says_by_itself_that_one_has_to_sign_in(anybody: httpx2.AsyncClient) -> None:
    page = await anybody.get(PAGE)
    assert page.status_code == 200
    assert "Please sign in first" in page.text
    assert (await anybody.post("/v1/graph/invoke", json={})).status_code == 401


async def test_only_the_scripts_of_the_page_and_of_the_gateway_may_run(anybody: httpx2.AsyncClient) -> None:
    answer = await anybody.get(PAGE, headers=token(anybody))
    policy = answer.headers["content-security-policy"]
    (script,) = re.findall(r"<script[^>]*>(.+?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


async def test_the_page_is_at_the_address_of_the_gateway_and_runs_only_scripts_of_its_files(
    anybody: httpx2.AsyncClient,
) -> None:
    answer = await anybody.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self' ; style-src 'self';" in policy
    for path in re.findall(r'(?:src|href)="\./([^"]+)"', answer.text):
        assert (await anybody.get(f"/{path}")).status_code == 200


async def test_the_page_can_be_installed_and_its_worker_asks_this_gateway_alone(anybody: httpx2.AsyncClient) -> None:
    policy = (await anybody.get("/")).headers["content-security-policy"]
    assert "worker-src 'self'; manifest-src 'self';" in policy
    worker = await anybody.get("/worker.js")
    assert worker.headers["content-security-policy"] == "default-src 'none'; connect-src 'self'"
    manifest = await anybody.get("/manifest.webmanifest")
    assert manifest.headers["content-type"] == "application/manifest+json"
    for icon in manifest.json()["icons"]:
        file = await anybody.get(f"/{icon['src']}")
        assert (file.status_code, file.headers["content-type"]) == (200, "image/png")


async def test_a_file_comes_compressed_to_a_client_that_reads_that(anybody: httpx2.AsyncClient) -> None:
    plain = await anybody.get("/page/page.js", headers={"accept-encoding": "identity"})
    packed = await anybody.get("/page/page.js", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) == len(packed.content)


async def test_what_a_browser_has_is_not_sent_again(anybody: httpx2.AsyncClient) -> None:
    first = await anybody.get("/sdk/handspan.js")
    again = await anybody.get("/sdk/handspan.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/sdk/",
        "/sdk/nothing.js",
        "/sdk/handspan.js/",
        "/sdk/..%2f..%2fgateway/app.py",
        "/sdk/%00.js",
        "/sdk/handspan.py",
        f"/sdk/{'a' * 1000}.js",
        f"/sdk/{'a/' * 1000}",
    ],
    ids=lambda path: path[:30],
)
async def test_nothing_else_is_there(anybody: httpx2.AsyncClient, path: str) -> None:
    answer = await anybody.get(path, headers=token(anybody))
    assert answer.status_code == 404
    assert set(answer.json()) == {"error", "code"}


async def test_a_missing_slash_is_added(anybody: httpx2.AsyncClient) -> None:
    answer = await anybody.get(PAGE.removesuffix("/"), headers=token(anybody))
    assert (answer.status_code, answer.headers["location"]) == (308, PAGE)


async def test_files_can_only_be_read(anybody: httpx2.AsyncClient) -> None:
    assert (await anybody.post("/sdk/handspan.js", headers=token(anybody))).status_code == 405


def test_the_page_in_the_package_is_the_one_of_the_examples() -> None:
    kept = ROOT / "src" / "handspan" / "assets" / "examples" / "browser_tools" / "index.html"
    assert kept.read_bytes() == (ROOT / "examples" / "browser_tools" / "index.html").read_bytes()
