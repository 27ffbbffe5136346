"""The content of messages: texts, images by `data:` or by address, files (SPEC F2)."""

from collections.abc import Sequence
from typing import Final

from handspan.core.messages import Media, Text
from handspan.core.results import Attachment
from handspan.gateway.runs.attachments import AttachmentRefused, read_data_url, read_image
from handspan.net.guard import NetGuard
from handspan.wire.openai.chat import ContentPart
from handspan.wire.openai.reading import WrongParameter

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
                kind, data = read_file_data(part.file.file_data, place)
                return Media(Attachment("file", kind, data, name=part.file.filename))
            case ContentPart(type="file"):
                raise WrongParameter("A file is taken as file_data here: uploads have other addresses.", place)
            case ContentPart(type="input_audio"):
                raise WrongParameter(_NO_AUDIO, place, "unsupported_value")
        raise WrongParameter(f"A part of the type {part.type[:40]!r} is not taken here.", place, "unsupported_value")

    async def read_image(self, url: str, place: str) -> Attachment:
        """Return the image of this address, or in it. Raises `WrongParameter`."""
        try:
            return await read_image(self._guard, url)
        except AttachmentRefused as error:
            raise WrongParameter(str(error), place, "invalid_value") from None


def read_file_data(url: str, place: str) -> tuple[str, bytes]:
    """Return the media type and the bytes of a `data:` address, or of bare base64. Raises `WrongParameter`."""
    try:
        return read_data_url(url)
    except AttachmentRefused as error:
        raise WrongParameter(str(error), place, "invalid_value") from None
