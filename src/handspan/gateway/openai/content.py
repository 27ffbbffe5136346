"""The content of messages: texts, images by `data:` or by address, files (SPEC F2)."""

import binascii
from base64 import b64decode
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

from handspan.core.errors import ToolError
from handspan.core.messages import Media, Text
from handspan.core.results import Attachment
from handspan.net.exchange import OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard
from handspan.wire.openai.chat import ContentPart
from handspan.wire.openai.reading import WrongParameter

_FETCH: Final = RequestLimits(seconds=20.0, body_bytes=16 * 1024 * 1024)
_NO_AUDIO: Final = "Audio is not taken here: send its words as text."


class ContentReader:
    """Reads the content of messages. Images at an address are fetched through the network guard."""

    def __init__(self, guard: NetGuard) -> None:
        self._guard = guard

    async def read(self, content: str | Sequence[ContentPart], place: str) -> list[Text | Media]:
        """Return the parts. Raises `WrongParameter` for one that can't be taken."""
        if isinstance(content, str):
            return [Text(content)] if content else []
        return [await self._read_part(part, f"{place}[{number}]") for number, part in enumerate(content)]

    async def _read_part(self, part: ContentPart, place: str) -> Text | Media:
        """Return a part of a message in our form. Raises `WrongParameter` for one that is not taken here."""
        match part:
            case ContentPart(type="text" | "input_text" | "output_text"):
                return Text(part.text)
            case ContentPart(type="refusal"):
                return Text(part.refusal)
            case ContentPart(type="image_url") if part.image_url is not None:
                return Media(await self.read_image(part.image_url.url, place))
            case ContentPart(type="file") if part.file is not None and part.file.file_data:
                kind, data = read_data_url(part.file.file_data, place)
                return Media(Attachment("file", kind, data, name=part.file.filename))
            case ContentPart(type="file"):
                raise WrongParameter("A file is taken as file_data here: uploads have other addresses.", place)
            case ContentPart(type="input_audio"):
                raise WrongParameter(_NO_AUDIO, place, "unsupported_value")
        raise WrongParameter(f"A part of the type {part.type[:40]!r} is not taken here.", place, "unsupported_value")

    async def read_image(self, url: str, place: str) -> Attachment:
        """Return the image of this address, or in it. Raises `WrongParameter`."""
        if url.startswith("data:"):
            kind, data = read_data_url(url, place)
        else:
            try:
                fetched = await self._guard.fetch(OutgoingRequest(url), _FETCH)
            except ToolError as error:
                raise WrongParameter(f"The image could not be fetched. {error.message}", place) from None
            kind, data = fetched.headers.get("content-type", "").partition(";")[0].strip().lower(), fetched.body
            if fetched.status != 200 or fetched.truncated:
                raise WrongParameter(f"The image could not be fetched: its server answered {fetched.status}.", place)
        if not kind.startswith("image/") or not data:
            raise WrongParameter(f"This is no image: its type is {kind[:60]!r}.", place, "invalid_value")
        return Attachment("image", kind, data)


def read_data_url(url: str, place: str) -> tuple[str, bytes]:
    """Return the media type and the bytes of a `data:` address; of bare base64, a file without a type."""
    if not url.startswith("data:"):
        url = f"data:application/octet-stream;base64,{url}"
    head, comma, body = url.removeprefix("data:").partition(",")
    kind, *options = head.split(";")
    try:
        data = b64decode(body, validate=True) if "base64" in options else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        raise WrongParameter("The data is not base64: encode its bytes so.", place, "invalid_value") from None
    if not comma:
        raise WrongParameter("The data: address has no comma before its data.", place, "invalid_value")
    return kind.strip().lower() or "text/plain", data
