"""`python -m handspan`: the command, for where its script is not on the path."""

from handspan.cli.__main__ import start

if __name__ == "__main__":
    start()
