"""Whether the speed tricks are on. The files `fast_*` hold them, and `docs/speed_inside.md` says what each gains.

`HANDSPAN_FAST=off` takes the library's way instead of each trick. That is slower, and the same to every client but
one: a client that closes the connection in the same packet as its last messages gets no more answers to these.

The variable is read once, when the process starts, because a trick is chosen where its code is loaded or made.
"""

import os
from typing import Final

FAST_VARIABLE: Final = "HANDSPAN_FAST"
IS_FAST: Final = os.environ.get(FAST_VARIABLE) != "off"
