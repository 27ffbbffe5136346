"""An image of any size reaches the model as an image, on every API, whatever way it came (SPEC X4)."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from handspan.client import Client, Image
from handspan.core.messages import Api, Media, Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.results import Attachment
from handspan.core.values import JsonObject
from handspan.testing import FakeDevice, RunningGateway, offer, running_gateway
from tests.gateway.graph.pages import ECHO, Answer, graph_gateway, result
from tests.media.files import bomb, opened, photo, picture
from tests.models.conversations import talking
from tests.models.fake_server import KEY, Call, FakeModelServer, Turn

pytestmark = pytest.mark.anyio

APIS: tuple[Api, ...] = get_args(Api)
MODELS: dict[Api, str] = {"gemini": "gemini-3-pro"}
ONE_CALL = (Turn(calls=(Call("phone__take_photo"),)), Turn(text="A red corner."))


@asynccontextmanager
async def talking_to(server: FakeModelServer, api: Api, folder: Path, **more: Any) -> AsyncIterator[RunningGateway]:
    """A gateway whose model is at this server."""
    model = {"api": api, "base_url": server.url(api), "key": KEY, "model": MODELS.get(api, "a-model")}
    async with running_gateway(folder, model="", models={"m": model}, **more) as gateway:
        yield gateway


@asynccontextmanager
async def phone_with(gateway: RunningGateway, *images: Image) -> AsyncIterator[Client]:
    """A device whose camera gives these images, one a call."""
    client, waiting = Client(gateway.url, gateway.token, label="phone"), list(images)

    @client.tool
    def take_photo() -> Image:
        """Take a photo."""
        return waiting.pop(0)

    async with client:
        yield client


async def ask(client: Client, *texts: str, session: str | None = None) -> str:
    """Say this in a chat; the id of its session."""
    async with asyncio.timeout(120), client.chat(session) as chat:
        for text in texts:
            async for _ in chat.send(text):
                pass
        return chat.session_id


def images_of(body: Any) -> Iterator[bytes]:
    """The images in a request, in the form of any of the four APIs."""
    match body:
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            yield b64decode(url.partition(";base64,")[2])
        case {"type": "image", "source": {"data": str(data)}}:
            yield b64decode(data)
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if kind.startswith("image/"):
            yield b64decode(data)
        case dict():
            for value in body.values():
                yield from images_of(value)
        case list():
            for value in body:
                yield from images_of(value)


def check_photo(data: bytes) -> None:
    """It is the photo: small enough, upright, and red in the corner where it was red."""
    image = opened(data)
    assert len(data) < 2_500_000
    assert (image.format, image.size) == ("JPEG", (1500, 2000))
    red, green, blue = image.convert("RGB").getpixel((1400, 100))  # type: ignore[misc] # an RGB image has three
    assert red > 200 > 60 > max(green, blue)
    assert "A phone" not in str(dict(image.getexif()))


@pytest.mark.parametrize("api", APIS)
async def test_a_phones_photo_of_5_mb_is_an_image_in_this_round_and_in_the_next_turn(api: Api, tmp_path: Path) -> None:
    assert len(photo()) > 5_000_000
    script = [*ONE_CALL, Turn(text="As I said: red.")]
    camera = Image(photo(), "image/jpeg", "IMG_1.jpg")
    async with (
        FakeModelServer(script) as server,
        talking_to(server, api, tmp_path) as gateway,
        phone_with(gateway, camera) as client,
    ):
        await ask(client, "What do you see?", "Are you sure?")
    requests = [list(images_of(asked.body)) for asked in server.asked]
    assert [len(images) for images in requests] == [0, 1, 1]
    check_photo(requests[1][0])
    assert requests[1] == requests[2]
    assert not [asked.refused for asked in server.asked if asked.refused]


async def test_an_image_stays_an_image_after_a_restart(tmp_path: Path) -> None:
    large = Image(
        picture("PNG", (2500, 500)) + bytes(300_000), "image/png"
    )  # what follows the image makes it an upload
    script = [*ONE_CALL, Turn(text="Still red.")]
    async with FakeModelServer(script) as server, talking_to(server, "anthropic", tmp_path) as gateway:
        async with phone_with(gateway, large) as client:
            session = await ask(client, "What do you see?")
        await gateway.restart()
        async with Client(gateway.url, gateway.token, label="laptop") as client:
            await ask(client, "And now?", session=session)
    before, after = (list(images_of(asked.body)) for asked in server.asked[1:])
    assert before == after != []


async def test_an_image_that_came_inline_is_scaled_too(tmp_path: Path) -> None:
    large = picture("PNG", (4000, 800))
    async with FakeModelServer(ONE_CALL) as server, talking_to(server, "anthropic", tmp_path) as gateway:
        async with FakeDevice(gateway.url, gateway.token) as device, asyncio.timeout(120):
            await device.connect(label="phone")
            await device.register(offer("take_photo"))
            talk = asyncio.create_task(_say(gateway, Text("Look")))
            request = await device.expect("tool_call_request")
            part: JsonObject = {"kind": "image", "media_type": "image/png", "data": b64encode(large).decode()}
            await device.send(
                {"type": "tool_result", "id": request["id"], "success": True, "output": "", "parts": [part]}
            )
            await talk
        (image,) = images_of(server.asked[1].body)
        assert (opened(image).format, opened(image).size) == ("PNG", (2000, 400))


async def test_what_a_person_attaches_is_scaled_and_converted(tmp_path: Path) -> None:
    async with FakeModelServer([Turn(text="Two.")]) as server, talking_to(server, "openai-chat", tmp_path) as gateway:
        large = picture("JPEG", (2500, 500))
        ref = await gateway.gateway.parts.app.artifacts.keep(large, owner=OPERATOR.owner, media_type="image/jpeg")
        upload = Media(Attachment("image", "image/jpeg", artifact=ref))
        bitmap = Media(Attachment("file", "image/bmp", picture("BMP"), name="old.bmp"))
        await _say(gateway, Text("What is this?"), upload, bitmap)
        first, second = images_of(server.asked[0].body)
        assert (opened(first).format, opened(first).size) == ("JPEG", (2000, 400))
        assert opened(second).format == "PNG"


@pytest.mark.parametrize("api", APIS)
async def test_an_image_that_cant_be_shown_is_told_with_the_reason_and_the_turn_goes_on(
    api: Api, tmp_path: Path
) -> None:
    images = [
        Image(bomb(50_000, 50_000)),
        Image(b"no image", name="x.png"),
        Image(picture("JPEG", (99, 99))[:700], "image/jpeg"),
    ]
    calls = Turn(calls=(Call("phone__take_photo"),) * 3)
    async with FakeModelServer([calls, Turn(text="I see.")]) as server, talking_to(server, api, tmp_path) as gateway:
        async with phone_with(gateway, *images) as client:
            await ask(client, "Look")
        asked = server.asked[1]
    assert list(images_of(asked.body)) == []
    sent = json.dumps(_readable(asked.body), ensure_ascii=False)
    assert "it has 50000 × 50000 pixels, more than the 100000000 that may be decoded" in sent
    assert "it is no JPEG, PNG, GIF, WebP, BMP or TIFF image" in sent
    assert "image file is truncated" in sent
    assert asked.refused == ""


async def test_a_pages_upload_and_its_tools_image_are_images_in_a_run(tmp_path: Path) -> None:
    large, calls = picture("PNG", (2500, 500)), Turn(calls=(Call("echo"),))
    async with (
        talking("anthropic", [calls, Turn(text="Both are red.")]) as (server, model),
        graph_gateway(tmp_path, model) as there,
    ):
        await there.page.set_up(ECHO)
        uploaded = Answer(await there.page.http.post("/v1/files/upload", files={"file": ("a.png", large, "image/png")}))
        media = {"kind": "file_id", "file_id": uploaded.data["file_id"], "mime_type": "image/png"}
        content = [{"type": "text", "text": "Look"}, {"type": "image", "media": media}]
        first = await there.page.ask("POST", "/v1/graph/invoke", {"messages": [{"role": "user", "content": content}]})
        part = {"kind": "image", "media_type": "image/png", "data": b64encode(large).decode()}
        await there.page.answer(result(first.calls[0]["id"], "a screenshot", parts=[part]))
    assert [[opened(image).size for image in images_of(asked.body)] for asked in server.asked] == [
        [(2000, 400)],
        [(2000, 400), (2000, 400)],
    ]


async def test_an_image_of_another_owner_is_not_shown(tmp_path: Path) -> None:
    async with FakeModelServer([Turn(text="No.")]) as server, talking_to(server, "anthropic", tmp_path) as gateway:
        ref = await gateway.gateway.parts.app.artifacts.keep(picture("JPEG"), owner="somebody", media_type="image/jpeg")
        await _say(gateway, Text("Look"), Media(Attachment("image", "image/jpeg", artifact=ref)))
        assert list(images_of(server.asked[0].body)) == []
        assert "There is no artifact" in str(server.asked[0].body)


async def test_gemini_gets_a_heic_photo_as_it_is_and_others_get_the_reason(tmp_path: Path) -> None:
    heic = Media(Attachment("image", "image/heic", b"\0\0\0\x18ftypheic" + b"x" * 100))
    for api, shown in (("gemini", 1), ("anthropic", 0)):
        async with FakeModelServer([Turn(text="Ok.")]) as server:
            async with talking_to(server, api, tmp_path / api) as gateway:  # type: ignore[arg-type] # two of the APIs
                await _say(gateway, Text("Look"), heic)
            assert len(list(images_of(server.asked[0].body))) == shown


async def _say(gateway: RunningGateway, *parts: Text | Media) -> None:
    """Let the operator say this in a new session, and wait for the end of the turn."""
    sessions, store = gateway.gateway.parts.sessions, gateway.gateway.parts.store
    record = await store.conversations.create(owner=OPERATOR.owner)
    handle = sessions.get(record.id, OPERATOR.owner).say(OPERATOR, UserMessage(parts), lambda *_: None)
    assert (await handle.wait_for_end()).reason == "done"


def _readable(body: Any) -> Any:
    """The request, with texts that are sent as base64 in clear."""
    match body:
        case {"mimeType": "text/plain", "data": str(data)}:
            return b64decode(data).decode()
        case dict():
            return {key: _readable(value) for key, value in body.items()}
        case list():
            return [_readable(value) for value in body]
    return body
