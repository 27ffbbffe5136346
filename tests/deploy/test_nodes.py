"""The files in `deploy/nodes/`: read by their programs where these are there, their variables are settings (SPEC K)."""

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from handspan.config.load import load_settings
from tests.deploy.test_files import DEPLOY, needs, run

NODES = DEPLOY / "nodes"


def check_variables(variables: dict[str, Any], folder: Path) -> None:
    """A gateway takes these variables, and is a node of several with them."""
    ours = {name: str(value) for name, value in variables.items() if name.startswith("HANDSPAN_")}
    settings = load_settings(None, {"HOME": str(folder), **ours})
    assert settings.cluster.url.startswith("nats://") and settings.store.url.startswith("postgresql://")
    assert settings.gateway.hosts == ("hands.example.com",)


def test_the_compose_file_is_read_and_its_variables_are_settings(tmp_path: Path) -> None:
    services = yaml.safe_load((NODES / "compose.yaml").read_text())["services"]
    names = set()
    for name in ("one", "two", "three"):
        check_variables(services[name]["environment"], tmp_path)
        names.add(services[name]["environment"]["HANDSPAN_CLUSTER__NAME"])
    assert names == {"one", "two", "three"} and {"postgres", "nats", "nginx"} <= services.keys()


def test_the_kubernetes_file_is_read_and_its_variables_are_settings(tmp_path: Path) -> None:
    secret, deployment, service = yaml.safe_load_all((NODES / "kubernetes.yaml").read_text())
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    known = {"database-url": secret["stringData"]["database-url"], "nats-password": "x", "name": "node-1"}
    variables = {
        one["name"]: one.get("value") or known[one["valueFrom"].get("secretKeyRef", {"key": "name"})["key"]]
        for one in container["env"]
    }
    check_variables(variables, tmp_path)
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]


@needs("systemd-analyze", "systemd")
def test_systemd_takes_the_unit_of_a_node(tmp_path: Path) -> None:
    text = (NODES / "handspan@.service").read_text()
    (program,) = re.findall(r"^ExecStart=(\S+) serve", text, re.MULTILINE)
    unit = tmp_path / "handspan@42617.service"
    unit.write_text(text.replace(program, shutil.which("env") or ""))
    assert "handspan@" not in run("systemd-analyze", "verify", str(unit))


@needs("nginx", "nginx")
def test_nginx_takes_the_file_of_several_nodes(tmp_path: Path) -> None:
    site = (NODES / "nginx.conf").read_text()
    for name in ("one", "two", "three"):
        site = site.replace(f"server {name}:", "server 127.0.0.1:")
    whole = tmp_path / "nginx.conf"
    whole.write_text(
        f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}} http {{ client_body_temp_path {tmp_path}/body;"
        f" proxy_temp_path {tmp_path}/proxy; fastcgi_temp_path {tmp_path}/f; uwsgi_temp_path {tmp_path}/u;"
        f" scgi_temp_path {tmp_path}/s;\n{site}\n}}"
    )
    assert "successful" in run("nginx", "-t", "-c", str(whole))
