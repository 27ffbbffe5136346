"""Where the words of a built-in tool's result come from: they are named to the model, as data from there (SPEC S4)."""

from typing import Final
from urllib.parse import urlsplit

from handspan.core.tool import Handling
from handspan.core.values import Arguments, Json


def _file(arguments: Arguments, value: Json) -> str:
    return f"file {arguments.get('path')}"


def _files(arguments: Arguments, value: Json) -> str:
    return f"files in {arguments.get('path', '.')}"


def _command(arguments: Arguments, value: Json) -> str:
    return f"command {arguments.get('command')}"


def _artifact(arguments: Arguments, value: Json) -> str:
    return f"artifact {arguments.get('id')}"


def name_host(arguments: Arguments, value: Json) -> str:
    """Return the host that answered, after all redirects; without an answer the host that was asked."""
    url = value.get("url") if isinstance(value, dict) else None
    try:
        return urlsplit(str(url or arguments.get("url"))).hostname or "the web"
    except ValueError:
        return "the web"


FROM_FILE: Final = Handling(result_source=_file)
FROM_FILES: Final = Handling(result_source=_files)
FROM_COMMAND: Final = Handling(result_source=_command)
FROM_ARTIFACT: Final = Handling(result_source=_artifact)
