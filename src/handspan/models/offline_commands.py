"""Whether a text is a command line or just words: "run ls -la" is one, "run away" is not."""

import re
from typing import Final

from handspan.models.offline_words import word_set

_PROGRAMS: Final = word_set(
    """awk base64 basename bash bc cal cargo cat chmod cmp comm cp curl cut date dd df diff dig dirname docker du echo
    env expr false file find free gcc git go grep gunzip gzip head hostname id ip java jq kill ls make md5sum mkdir
    mktemp mv nl node npm npx nproc od paste perl ping pip printenv printf ps pwd pytest python python3 readlink
    realpath rm rmdir rg ruby rustc sed seq sh sha256sum sleep sort ssh stat tac tail tar tee test touch tr tree true
    tsc uname uniq uptime uv wc wget which whoami xargs xxd yes zip unzip"""
)
_EVERYDAY: Final = word_set("cut false file find free go head kill make sleep sort test touch tree true which yes")
_PROSE: Final = r"(?i)\s(?:the|a|an|my|your|our|me|us|of|away|some|these|this|for)\b"
_SYNTAX: Final = r"[|<>;&$`*]|(?:^|\s)-{1,2}\w|^\.{0,2}/|^\w+=\S|\.(?:sh|py|js)\b"


def looks_like_a_command(line: str) -> bool:
    """A known program comes first, or there is something in it that only command lines have."""
    program = line.split(maxsplit=1)[0].rstrip(":")
    if re.search(_SYNTAX, line):
        return True
    return program in _PROGRAMS and not (program in _EVERYDAY and re.search(_PROSE, line))
