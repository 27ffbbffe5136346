"""The console script `handspan`, and `python -m handspan.cli`."""

import gc
import sys


def start() -> None:
    """Load the command line with garbage collection off, and run it.

    Nothing that is loaded becomes garbage, and looking for it takes a tenth of the time. `main.py` switches the
    collection on again.
    """
    gc.disable()
    try:
        from handspan.cli.main import main

        main()
    except KeyboardInterrupt:  # Ctrl-C during loading: no traceback, as later
        sys.exit(130)


if __name__ == "__main__":
    start()
