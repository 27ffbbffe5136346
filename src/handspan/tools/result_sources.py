"""Where the words of a built-in tool's result come from: they are named to the model, as data from there (SPEC S4)."""

from typing import Final
from urllib.parse import urlsplit

from handspan.core.tool import Handling
from handspan.core.values import Arguments, Json

FROM_FILE: Final = Handling(result_source=lambda arguments, _: f"file {arguments.get('path')}")
FROM_FILES: Final = Handling(result_source=lambda arguments, _: f"files in {arguments.get('path', '.')}")
FROM_COMMAND: Final = Handling(result_source=lambda arguments, _: f"command {arguments.get('command')}")
FROM_ARTIFACT: Final = Handling(result_source=lambda arguments, _: f"artifact {arguments.get('id')}")


def name_host(arguments: Arguments, value: Json) -> str:
    """Return the host that answered, after all redirects; without an answer the host that was asked."""
    url = value.get("url") if isinstance(value, dict) else None
    try:
        return urlsplit(str(url or arguments.get("url"))).hostname or "the web"
    except ValueError:
        return "the web"
