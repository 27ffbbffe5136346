"""Why the gateway could not be reached, in words for a person."""

import socket

import pytest

from handspan.client.errors import explain_failure


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 113] Connect call failed"),
            "Connection refused, No route to host",
        ),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (TimeoutError("timed out"), "timed out"),
        (ConnectionResetError(), "ConnectionResetError (is it https there?)"),
    ],
)
def test_a_failed_connection_is_explained_without_numbers_of_the_system(error: Exception, words: str) -> None:
    assert explain_failure("http://gate.example", error) == words
