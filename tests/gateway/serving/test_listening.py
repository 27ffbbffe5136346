"""The sockets that the gateway listens on."""

import errno
import select
import socket
import sys

import pytest

from handspan.gateway.serving.listening import drop_new_connections
from tests.waiting import WAIT


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no packet filter of a socket")
def test_a_connection_that_began_before_new_ones_are_dropped_can_be_accepted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as late:
        with socket.create_connection(listener.getsockname(), WAIT) as early:
            assert drop_new_connections(listener)
            late.setblocking(False)
            late.connect_ex(listener.getsockname())
            early.sendall(b"first")
            with listener.accept()[0] as accepted:
                assert accepted.recv(5) == b"first"
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert select.select([], [late], [], 0)[1] == []  # neither connected nor refused
        listener.close()
        select.select([], [late], [], WAIT)
        assert late.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
