"""The console script `handspan`, and `python -m handspan.cli`."""

import gc
import sys


def start() -> None:
    """Load the command line while no garbage is looked for, and run it.

    Nothing that is loaded becomes garbage, and to look for it takes a tenth of the time. `main` switches it on again.
    """
    gc.disable()
    try:
        from handspan.cli.main import main

        main()
    except KeyboardInterrupt:  # while it was loaded: without a traceback, as later
        sys.exit(130)


if __name__ == "__main__":
    start()
