"""The images of a conversation: fitted once, before their message is encoded (SPEC X4, M4)."""

import asyncio

import pytest

from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import ToolError
from handspan.core.images import ImageLimits
from handspan.core.messages import Api, AssistantMessage, CallPart, CallResult, Media, ResultsMessage, Text, UserMessage
from handspan.core.results import Attachment
from handspan.models.choice import codec_for
from handspan.models.projection import EncodedProjection
from tests.models.conversations import APIS, user

pytestmark = pytest.mark.anyio

UPLOADED = Attachment("image", "image/jpeg", artifact=ArtifactRef("a1", 10**7, "image/jpeg"), name="photo.jpg")
LOOK = UserMessage((Text("Look"), Media(UPLOADED)))
CALLING = AssistantMessage((CallPart("c1", "camera", "{}"),), "calls")
TAKEN = ResultsMessage((CallResult("c1", "camera", "{}", attachments=(UPLOADED,)),))


class Camera:
    """A reader that gives images of this size, or fails."""

    def __init__(self, size: int = 9, error: ToolError | None = None) -> None:
        self._size = size
        self._error = error
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.at_once = self.most_at_once = 0
        self.sizes: list[int] = []
        """The most bytes that each image was allowed to have."""

    async def read_image(self, image: Attachment, limits: ImageLimits) -> Attachment:
        self.at_once += 1
        await self.may_read.wait()
        await asyncio.sleep(0)
        self.most_at_once, self.at_once = max(self.most_at_once, self.at_once), self.at_once - 1
        self.sizes.append(limits.size)
        if self._error is not None:
            raise self._error
        return Attachment("image", "image/jpeg", b"\xff\xd8\xff" + bytes(min(self._size, limits.size)))


@pytest.mark.parametrize("api", APIS)
async def test_messages_after_an_image_keep_their_order_and_each_image_is_read_once(api: Api) -> None:
    codec, reader = codec_for(api), Camera()
    projection, plain = EncodedProjection(codec), EncodedProjection(codec)
    seen = await reader.read_image(UPLOADED, codec.images)
    for message in (user("Hi"), LOOK, CALLING, TAKEN):
        projection.append(message)
    taken = ResultsMessage((CallResult("c1", "camera", "{}", attachments=(seen,)),))
    for message in (user("Hi"), UserMessage((Text("Look"), Media(seen))), CALLING, taken):
        plain.append(message)
    for _ in range(2):
        await projection.fit_images(reader)
        assert list(projection.items) == list(plain.items)
    assert (len(projection), len(reader.sizes)) == (4, 3)


@pytest.mark.parametrize("api", APIS)
async def test_without_a_reader_an_upload_is_described(api: Api) -> None:
    projection = EncodedProjection(codec_for(api))
    projection.append(LOOK)
    assert b"a1" in b"".join(projection.items)


async def test_a_cancelled_reply_leaves_the_image_for_the_next_one() -> None:
    projection, reader = EncodedProjection(codec_for("anthropic")), Camera()
    projection.append(LOOK)
    reader.may_read.clear()
    fitting = asyncio.create_task(projection.fit_images(reader))
    await asyncio.sleep(0)
    fitting.cancel()
    await asyncio.gather(fitting, return_exceptions=True)
    reader.may_read.set()
    await projection.fit_images(reader)
    (item,) = projection.items
    assert b'"type":"image"' in item


async def test_replies_in_a_row_of_old_conversations_are_joined_also_behind_an_image() -> None:
    projection = EncodedProjection(codec_for("anthropic"))
    for message in (LOOK, AssistantMessage((Text("one"),)), AssistantMessage((Text("two"),))):
        projection.append(message)
    await projection.fit_images(Camera())
    _, reply = projection.items
    assert b"one" in reply and b"two" in reply


async def test_the_reason_stands_where_an_image_can_not_be_shown() -> None:
    projection = EncodedProjection(codec_for("openai-chat"))
    projection.append(LOOK)
    await projection.fit_images(Camera(error=ToolError("timeout", "it took too long.")))
    (item,) = projection.items
    reason = (
        "[The image 'photo.jpg' (image/jpeg, 10000000 bytes, kept as artifact 'a1') can't be shown: it took too long.]"
    )
    assert reason.encode() in item


async def test_many_images_become_smaller_and_never_more_than_the_api_takes() -> None:
    codec, reader = codec_for("gemini"), Camera(10**7)
    projection = EncodedProjection(codec)
    for _ in range(40):
        projection.append(UserMessage((Media(UPLOADED),) * 10))
        projection.append(AssistantMessage((Text("ok"),)))
    await projection.fit_images(reader)
    assert reader.sizes == sorted(reader.sizes, reverse=True)
    assert sum(reader.sizes) <= codec.images.total
    assert reader.most_at_once == 1  # one conversation does not hold up the others
