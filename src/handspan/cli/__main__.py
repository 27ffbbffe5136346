"""The console script `handspan`, and `python -m handspan.cli`."""

import gc
import sys

from handspan.cli import late


def start() -> None:
    """Load the command line with garbage collection off, and run it.

    Nothing that is loaded becomes garbage, and looking for it takes a tenth of the time. `main.py` switches the
    collection on again.
    """
    gc.disable()
    try:
        late.main.main()
    except KeyboardInterrupt:  # Ctrl-C during loading: no traceback, as later
        sys.exit(130)


if __name__ == "__main__":
    start()
