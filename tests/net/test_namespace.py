"""The guard on a machine where every address of the Internet is at home: nothing can leave, everything can be seen."""

import json
import os
import shutil
import subprocess
import sys

import pytest

# Every address is local here, so one listener sees each connection that is made, and to which address.
PROGRAM = r"""
import asyncio, json, socket
from handspan.core.errors import ToolError
from handspan.net.exchange import OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard

dialled = []

async def answer(reader, writer):
    dialled.append(writer.get_extra_info("sockname")[0])
    request = await reader.readuntil(b"\r\n\r\n")
    target = request.split(b" ")[1].decode()
    head = f"302 Found\r\nLocation: {target[4:]}" if target.startswith("/to/") else "200 OK"
    writer.write(f"HTTP/1.1 {head}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok".encode())
    await writer.drain()
    writer.close()

async def outcome(url):
    dialled.clear()
    try:
        await NetGuard().fetch(OutgoingRequest(url), RequestLimits(seconds=10))
        said = "ok"
    except ToolError as error:
        said = error.code
    return said, list(dialled)

async def main(urls):
    four = await asyncio.start_server(answer, "0.0.0.0", 80)
    six = await asyncio.start_server(answer, "::", 80, family=socket.AF_INET6)
    print(json.dumps([await outcome(url) for url in urls]))

import sys
asyncio.run(main(json.loads(sys.argv[1])))
"""
NETWORK = 'ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo && exec "$@"'
PREPARED = ["unshare", "--net", "sh", "-c", NETWORK, "sh"]

PUBLIC = "93.184.216.34"
EXPECTED: dict[str, tuple[str, list[str]]] = {
    f"http://{PUBLIC}/": ("ok", [PUBLIC]),
    "http://[2606:4700::1111]/": ("ok", ["2606:4700::1111"]),
    "http://8.8.8.8/to//again": ("ok", ["8.8.8.8", "8.8.8.8"]),
    f"http://8.8.8.8/to/http://{PUBLIC}/": ("ok", ["8.8.8.8", PUBLIC]),
    "http://8.8.8.8/to/http://169.254.169.254/latest": ("policy_denied", ["8.8.8.8"]),
    "http://8.8.8.8/to/http://[::ffff:127.0.0.1]/": ("policy_denied", ["8.8.8.8"]),
    "http://8.8.8.8/to/http://2130706433/": ("network_error", ["8.8.8.8"]),
    **{
        f"http://{host}/": ("policy_denied", [])
        for host in (
            *("127.0.0.1", "localhost", "0.0.0.0", "10.1.2.3", "169.254.169.254", "168.63.129.16", "224.0.0.1"),
            *("100.64.0.1", "198.18.0.1", "255.255.255.255", "①②⑦.⓪.⓪.①", "[::1]", "[::]", "[::ffff:8.8.8.8]"),
            *("[64:ff9b::808:808]", "[2002:808:808::1]", "[fd00:ec2::254]", "[2001:db8::1]", "[::8.8.8.8]"),
        )
    },
    **{
        f"http://{host}/": ("invalid_arguments", [])
        for host in ("2130706433", "0x7f.1", "127.1", "0", "8.8.8.8\\@127.0.0.1", "8.8.8.8@127.0.0.1", "[fe80::1%lo]")
    },
}


def _namespaces_work() -> bool:
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        return False
    return subprocess.run([*PREPARED, "true"], capture_output=True, timeout=20, check=False).returncode == 0


@pytest.mark.skipif(not _namespaces_work(), reason="needs root, ip and unshare for a network of its own")
@pytest.mark.outside
def test_public_addresses_are_dialled_as_spelt_and_no_other_address_is_touched() -> None:
    done = subprocess.run(
        [*PREPARED, sys.executable, "-c", PROGRAM, json.dumps(list(EXPECTED))],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes = {url: (said, dialled) for url, (said, dialled) in zip(EXPECTED, json.loads(done.stdout), strict=True)}
    assert outcomes == EXPECTED
