"""Commands in the real sandbox with a guarded network: what they reach, what they do not, and that nothing is left."""

import asyncio
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from handspan.core.context import ToolContext
from handspan.core.values import JsonObject
from handspan.net.forward_proxy import ForwardProxy, ProxyLimits
from handspan.net.guard import NetGuard
from handspan.net.policy import UrlPolicy
from handspan.tools.bubblewrap import Network
from handspan.tools.mounts import SANDBOX_PATH
from handspan.tools.processes import run_child
from handspan.tools.sandbox import Sandbox, SandboxReport, create_workspace
from handspan.tools.shell.launcher import CommandLauncher
from handspan.tools.shell.policy import CommandPolicy
from handspan.tools.shell.shell import ExecShell
from tests.net.site import Answer, Site, redirect, response
from tests.net.test_tls import Certificate
from tests.tools.child_processes import LIMIT, probe

pytestmark = pytest.mark.anyio

POLICY = UrlPolicy(allowed_domains=("site.test",))
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


async def at_home(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.fixture
def folder(on_disk: Path) -> Path:
    create_workspace(on_disk / "ws")
    return on_disk / "ws"


async def probed(folder: Path, network: Network = "guarded") -> Sandbox:
    sandbox = await probe(Sandbox(folder, network=network))
    if shutil.which("bwrap") is None or "namespace" in sandbox.report.reason:
        pytest.skip(str(sandbox.report))
    assert (sandbox.active, sandbox.report.network) == (True, network), sandbox.report
    return sandbox


class GuardedShell:
    """`exec_shell` with a guarded network. Every proxy that it opened is remembered."""

    def __init__(self, sandbox: Sandbox, ctx: ToolContext, policy: UrlPolicy, limits: ProxyLimits) -> None:
        self.proxies: list[ForwardProxy] = []
        self._ctx = ctx
        self._guard = NetGuard(policy, resolve=at_home)
        self._limits = limits
        self.tool = ExecShell(CommandLauncher(sandbox.workspace, CommandPolicy(), sandbox, open_proxy=self._open))

    def _open(self) -> ForwardProxy:
        self.proxies.append(ForwardProxy(self._guard, self._limits))
        return self.proxies[-1]

    async def run(self, command: str) -> JsonObject:
        return await self.tool.run({"command": command, "timeout": 55}, self._ctx)


@pytest.fixture
async def shell(folder: Path, ctx: ToolContext) -> GuardedShell:
    return GuardedShell(await probed(folder), ctx, POLICY, ProxyLimits())


# What is out of reach


@needs_curl
async def test_inner_addresses_are_refused_and_the_result_says_how_they_could_be_allowed(shell: GuardedShell) -> None:
    async with Site({"/": response(b"secret")}) as site:
        for url in (
            f"http://other.test:{site.port}/",
            f"https://other.test:{site.port}/",
            f"http://10.0.0.1:{site.port}/",
        ):
            result = await shell.run(f"curl -sS -m 20 --fail {url}")
            assert result["exit_code"] != 0 and result["stdout"] == ""
            assert "blocked private IP" in str(result["note"]) and "tools.url_policy.allowed_domains" in str(
                result["note"]
            )
        assert site.connections == 0


async def test_loopback_inside_is_the_sandboxs_own(shell: GuardedShell) -> None:
    async with Site({"/": response(b"secret")}) as site:
        code = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{site.port}/').read())"
        result = await shell.run(f'python3 -c "{code}"')
        assert "refused" in str(result["stderr"]) and site.connections == 0


@needs_curl
async def test_a_redirect_inward_is_refused_when_the_client_follows_it(shell: GuardedShell) -> None:
    async with Site({"/secret": response(b"secret")}) as site:
        site.routes["/"] = redirect(f"http://inner.test:{site.port}/secret")
        result = await shell.run(f"curl -sS -L -m 20 http://site.test:{site.port}/")
        assert site.connections == 1
        assert "Not requested" in str(result["stdout"]) and "secret" not in str(result["stdout"])


async def test_nothing_but_the_proxy_leads_out(shell: GuardedShell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        here = f"('127.0.0.1', {server.getsockname()[1]})"
        there = f"('127.0.0.1', {datagrams.getsockname()[1]})"
        code = (
            "import socket\n"
            "for attempt in (\n"
            f"    lambda: socket.create_connection({here}, 5),\n"
            f"    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', {there}),\n"
            "    lambda: socket.create_connection(('198.51.100.1', 22), 5),\n"
            "    lambda: socket.gethostbyname('site.test'),\n"
            "    lambda: socket.create_connection(('127.0.0.1', 3128), 5).close() or print('proxy'),\n"
            "):\n"
            "    try:\n"
            "        attempt()\n"
            "    except OSError as error:\n"
            "        print(type(error).__name__)\n"
        )
        result = await shell.run(f'python3 - <<"E"\n{code}E')
        for listener in (server, datagrams):
            listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)
    assert str(result["stdout"]).split() == ["ConnectionRefusedError", "OSError", "gaierror", "proxy"], result


async def test_the_command_gets_no_descriptor_and_no_process_of_ours(shell: GuardedShell) -> None:
    result = await shell.run("ls /proc/self/fd; cat /proc/[0-9]*/comm")
    descriptors, _, programs = str(result["stdout"]).partition("3\n")
    assert descriptors.split() == ["0", "1", "2"]
    assert set(programs.split()) - {"cat"} == {"sh"}


async def test_keys_and_names_of_the_machine_stay_out_of_sight(shell: GuardedShell) -> None:
    result = await shell.run("ls /etc /etc/ssl; ls -d /etc/ssl/private /etc/resolv.conf /etc/shadow; cat /etc/hosts")
    assert "private" not in str(result["stdout"]) and "resolv" not in str(result["stdout"])
    assert "Permission denied" not in str(result["stderr"])
    assert str(result["stdout"]).endswith("127.0.0.1 localhost sandbox\n::1 localhost\n")
    assert (await shell.run("touch /etc/ssl/certs/x; echo >> /etc/hosts"))["exit_code"] != 0


# What works


@needs_curl
async def test_curl_and_python_reach_what_the_url_policy_allows_by_http_and_https(
    shell: GuardedShell, folder: Path, tmp_path: Path
) -> None:
    certificate = Certificate(tmp_path)
    shutil.copy(certificate.file, folder / "ca.pem")
    (folder / "ca.pem").chmod(0o644)
    routes: dict[str, Answer] = {"/": response(b"hello\n")}
    async with Site(routes) as plain, Site(routes, tls=certificate.server) as secure:
        urls = (f"http://site.test:{plain.port}/", f"https://site.test:{secure.port}/")
        script = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode(), end='')"
        result = await shell.run(
            f"export SSL_CERT_FILE=/workspace/ca.pem; curl -sS --cacert ca.pem {' '.join(urls)}; "
            f'curl -sS -d body=x {urls[0]}; for url in {" ".join(urls)}; do python3 -c "{script}" $url; done; '
            f"curl -sS {urls[1]} --cacert /dev/null || echo untrusted"
        )
        assert result["stdout"] == "hello\n" * 5 + "untrusted\n", result
        assert plain.seen[1].body == b"body=x"
        assert "note" not in result
    assert all(not proxy.problems for proxy in shell.proxies)


@needs_git
async def test_git_clones_over_https(shell: GuardedShell, folder: Path, tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    shutil.copy(certificate.file, folder / "ca.pem")
    (folder / "ca.pem").chmod(0o644)
    async with Site(await asyncio.to_thread(repository_files, tmp_path), tls=certificate.server) as site:
        clone = f"clone -q https://site.test:{site.port}/r.git copy"
        result = await shell.run(f"git -c http.sslCAInfo=/workspace/ca.pem {clone} && cat copy/a.txt")
    assert (result["exit_code"], result["stdout"]) == (0, "from the repository\n"), result


@pytest.mark.parametrize("program", ["pip", "npm"])
async def test_packages_are_installed_over_https(
    shell: GuardedShell, folder: Path, tmp_path: Path, program: str
) -> None:
    if shutil.which(program, path=SANDBOX_PATH) is None:
        pytest.skip(f"{program} is not installed for everybody")
    certificate = Certificate(tmp_path)
    shutil.copy(certificate.file, folder / "ca.pem")
    (folder / "ca.pem").chmod(0o644)
    async with Site({}, tls=certificate.server) as site:
        address = f"https://site.test:{site.port}"
        site.routes.update(package_files(address))
        commands = {
            "pip": f"pip install -q --no-deps --target . --cert ca.pem --index-url {address}/simple demo "
            "--disable-pip-version-check && python3 -c 'import demo'",
            "npm": f"npm install --no-audit --no-fund --no-update-notifier --loglevel=error --silent "
            f"--cafile ca.pem --registry {address}/ demo && node -e 'require(\"demo\")'",
        }
        result = await shell.run(commands[program])
    assert (result["exit_code"], result["stdout"]) == (0, "demo works\n"), result


def package_files(address: str) -> dict[str, Answer]:
    """A package for Python and one for Node.js, as their indexes serve them."""
    wheel, tarball = io.BytesIO(), io.BytesIO()
    about = "demo-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo.py", "print('demo works')\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    with tarfile.open(fileobj=tarball, mode="w:gz") as archive_of_node:
        for name, text in (("package.json", '{"name": "demo"}'), ("index.js", "console.log('demo works')")):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive_of_node.addfile(entry, io.BytesIO(text.encode()))
    dist = {"tarball": f"{address}/demo.tgz", "shasum": hashlib.sha1(tarball.getvalue()).hexdigest()}
    version = {"name": "demo", "version": "1.0.0", "dist": dist}
    packument = {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    file = "demo-1.0-py3-none-any.whl"
    return {
        "/simple/demo/": response(f'<a href="/{file}">{file}</a>'.encode(), headers={"Content-Type": "text/html"}),
        f"/{file}": response(wheel.getvalue()),
        "/demo": response(json.dumps(packument).encode(), headers={"Content-Type": "application/json"}),
        "/demo.tgz": response(tarball.getvalue()),
    }


def repository_files(folder: Path) -> dict[str, Answer]:
    """A repository as files that any web server can serve."""
    work = folder / "work"
    work.mkdir()
    (work / "a.txt").write_text("from the repository\n")
    user = ("-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (
        ("git", *user, "init", "-q"),
        ("git", "add", "."),
        ("git", *user, "commit", "-qm", "First"),
        ("git", *user, "clone", "-q", "--bare", ".", str(folder / "r.git")),
        ("git", "-C", str(folder / "r.git"), "update-server-info"),
    ):
        subprocess.run(words, cwd=work, env=environment, check=True, capture_output=True, timeout=LIMIT)
    files = [path for path in (folder / "r.git").rglob("*") if path.is_file()]
    return {f"/{path.relative_to(folder)}": response(path.read_bytes()) for path in files}


async def test_the_description_says_what_the_network_is(shell: GuardedShell) -> None:
    spec = shell.tool.spec
    assert "git over https, pip, npm and curl work; ssh, UDP and DNS do not" in spec.description
    assert spec.annotations.open_world


# Its bounds and its end


@needs_curl
async def test_a_command_that_takes_too_much_is_cut_off_and_told(folder: Path, ctx: ToolContext) -> None:
    shell = GuardedShell(await probed(folder), ctx, POLICY, ProxyLimits(bytes=200_000))
    async with Site({"/": response(b"x" * 1_000_000)}) as site:
        result = await shell.run(f"curl -sS http://site.test:{site.port}/ | wc -c")
    assert int(str(result["stdout"])) < 300_000
    assert "tools.sandbox.network_bytes" in str(result["note"])


@needs_curl
async def test_a_command_that_is_cancelled_leaves_no_connection(shell: GuardedShell) -> None:
    asked = asyncio.Event()

    async def silent(writer: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with Site({"/": silent}) as site:
        task = asyncio.create_task(shell.run(f"curl -sS http://site.test:{site.port}/"))
        await asyncio.wait_for(asked.wait(), LIMIT)
        assert tasks_of_proxies()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not tasks_of_proxies()


def tasks_of_proxies() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if "ForwardProxy" in str(task.get_coro())]


async def test_without_the_proxy_a_command_in_such_a_sandbox_has_no_network(folder: Path) -> None:
    sandbox = await probed(folder)
    with sandbox.launch(("sh", "-c", "echo ${http_proxy:-none}; ls /etc/ssl")) as launch:
        finished = await run_child(launch, timeout=LIMIT)
    assert finished.stdout == "none\n" and finished.exit_code != 0


async def test_without_root_the_socket_is_handed_out_as_well() -> None:
    if os.geteuid() != 0:
        pytest.skip("all other tests show this already when they run without root")
    folder, received = Path(tempfile.mkdtemp(dir="/tmp")), list[socket.socket]()
    try:
        os.chown(folder, 61234, 61234)
        sandbox = Sandbox(folder, SandboxReport(True, "by hand", network="guarded"), as_root=False)
        with sandbox.launch(("sh", "-c", "id -u; echo $https_proxy"), received.append) as launch:
            user = ("--reuid", "61234", "--regid", "61234", "--clear-groups", "--")
            argv = (shutil.which("setpriv") or "setpriv", *user, *launch.argv)
            finished = await run_child(replace(launch, argv=argv), timeout=LIMIT)
        if not finished.started:
            pytest.skip(f"no user namespaces here: {finished.stderr}")
        assert finished.stdout == "61234\nhttp://127.0.0.1:3128\n"
        assert [listener.getsockname() for listener in received] == [("127.0.0.1", 3128)]
    finally:
        for listener in received:
            listener.close()
        shutil.rmtree(folder)


# Where it can't be had


async def test_without_a_python_for_the_starter_there_is_no_network_and_the_report_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await probed(folder)
    monkeypatch.setattr("handspan.tools.bubblewrap._PYTHON", "no-such-python")
    sandbox = await probe(Sandbox(folder, network="guarded"))
    assert sandbox.active and sandbox.report.network == "none"
    assert (
        "commands have no network" in sandbox.report.warning
        and "install the system's python3" in sandbox.report.warning
    )


async def test_a_starter_that_fails_means_no_network_and_the_report_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ctx: ToolContext
) -> None:
    await probed(folder)
    monkeypatch.setattr("handspan.tools.bubblewrap._PROGRAM", "raise SystemExit('no socket can be had')")
    sandbox = await probe(Sandbox(folder, network="guarded"))
    assert sandbox.active and sandbox.report.network == "none"
    assert "no socket can be had" in sandbox.report.warning
    assert "There is no network" in GuardedShell(sandbox, ctx, POLICY, ProxyLimits()).tool.spec.description


async def test_a_starter_that_hands_out_no_socket_means_no_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await probed(folder)
    monkeypatch.setattr("handspan.tools.bubblewrap._PROGRAM", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])")
    report = (await probe(Sandbox(folder, network="guarded"))).report
    assert report.network == "none" and "handed out no socket" in report.warning


# The machine's own network


async def test_with_the_network_of_the_machine_everything_is_reached(folder: Path) -> None:
    sandbox = await probed(folder, "host")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 20)"
        with sandbox.launch(("python3", "-c", code)) as launch:
            finished = await run_child(launch, timeout=LIMIT)
        server.settimeout(LIMIT)
        server.accept()[0].close()
    assert finished.exit_code == 0
    assert "network: host" in sandbox.report.reason
