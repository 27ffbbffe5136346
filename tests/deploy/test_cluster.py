"""The files in `deploy/cluster/`: their programs accept them, their variables are settings, their proxies balance."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from handspan.config.load import load_settings
from tests.deploy.test_files import DEPLOY, needs, run
from tests.deploy.test_nginx import around, make_certificate

CLUSTER: Final = DEPLOY / "cluster"
NATS: Final = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


def read(name: str) -> str:
    return (CLUSTER / name).read_text(encoding="utf-8")


def compose_variables() -> dict[str, dict[str, str]]:
    """The variables of each gateway of the compose file."""
    services = yaml.safe_load(read("compose.yaml"))["services"]
    return {name: one["environment"] for name, one in services.items() if "build" in one}


def kubernetes_objects() -> dict[str, dict[str, Any]]:
    """Each object of the manifests, by its kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(read("kubernetes.yaml"))}


def container() -> dict[str, Any]:
    (found,) = kubernetes_objects()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def kubernetes_variables() -> dict[str, str]:
    """The variables of a pod. Those that come from a Secret or from the pod itself get a value of the same form."""
    forms = {"HANDSPAN_DATABASE_URL": "postgresql://handspan:secret@postgres:5432/handspan"}
    return {one["name"]: one.get("value") or forms.get(one["name"], "handspan") for one in container()["env"]}


def unit_variables() -> dict[str, str]:
    return {
        name: value.replace("%i", "42617").replace("%l", "host")
        for name, value in re.findall(r"^Environment=(HANDSPAN_\w+)=(\S+)$", read("handspan@.service"), re.MULTILINE)
    }


def documented_variables() -> dict[str, str]:
    """The variables that a comment of the unit names: the person has to write them into its file."""
    comments = "".join(line for line in read("handspan@.service").splitlines() if line.startswith("#"))
    forms = {"HANDSPAN_DATABASE_URL": "postgresql://handspan@db/handspan", "HANDSPAN_CLUSTER": "nats://127.0.0.1:4222"}
    return {name: forms.get(name, "handspan") for name in re.findall(r"HANDSPAN_\w+", comments)}


PLACES: Final[dict[str, dict[str, str]]] = {
    **compose_variables(),
    "kubernetes": kubernetes_variables(),
    "unit": {**unit_variables(), **documented_variables()},
}


@pytest.mark.parametrize("place", PLACES)
def test_variables_are_settings(place: str, tmp_path: Path) -> None:
    alone = {name: value for name, value in PLACES[place].items() if not name.startswith("HANDSPAN_CLUSTER")}
    settings = load_settings(None, {"HOME": str(tmp_path), **alone})
    assert settings.store.url.startswith("postgresql://")
    assert place == "unit" or (settings.gateway.hosts and settings.gateway.public_url)


@pytest.mark.parametrize("place", PLACES)
def test_a_gateway_with_these_variables_is_a_node(place: str, tmp_path: Path) -> None:
    cluster: Any = getattr(load_settings(None, {"HOME": str(tmp_path), **PLACES[place]}), "cluster", None)
    assert cluster.url.startswith("nats://") and cluster.name and cluster.user and cluster.password


def test_every_gateway_of_the_compose_file_is_a_node_of_its_own_behind_the_proxy() -> None:
    services = yaml.safe_load(read("compose.yaml"))["services"]
    nodes = compose_variables()
    assert len(nodes) == 3 and {"postgres", "nats", "nginx"} == services.keys() - nodes.keys()
    for name, variables in nodes.items():
        assert variables["HANDSPAN_CLUSTER__NAME"] == variables["HANDSPAN_CLUSTER__USER"] == name
        assert services[name]["volumes"] == [f"{name}:/data"]
    proxied = re.findall(r"^ +server (\w+):42617 ", read("compose/nginx.conf"), re.MULTILINE)
    users = re.findall(r"user: (\w+), password: \$NATS_(\w+)", read("nats.conf"))
    assert set(proxied) == nodes.keys() == {user for user, _ in users}
    assert services["nats"]["environment"].keys() == {f"NATS_{secret}" for _, secret in users}


def test_files_that_the_compose_file_names_are_there() -> None:
    services = yaml.safe_load(read("compose.yaml"))["services"]
    mounted = [volume.split(":")[0] for one in services.values() for volume in one.get("volumes", ())]
    files = [CLUSTER / path for path in mounted if path.startswith("./")]
    build = services["one"]["build"]
    files.append(CLUSTER / build["context"] / build["dockerfile"])
    assert len(files) == 3 and not [file for file in files if not file.is_file()]
    assert all(f"ARG {name}=" in files[-1].read_text(encoding="utf-8") for name in build["args"])


def test_pods_are_probed_drained_and_taken_one_at_a_time() -> None:
    found, gateway = kubernetes_objects(), container()
    pod = found["Deployment"]["spec"]["template"]
    assert gateway["livenessProbe"]["httpGet"]["path"] == gateway["startupProbe"]["httpGet"]["path"] == "/health"
    assert gateway["readinessProbe"]["httpGet"]["path"] == "/ready"
    (port,) = gateway["ports"]
    assert found["Service"]["spec"]["ports"][0]["targetPort"] == port["name"] == "http"
    assert found["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert found["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    program, pause = gateway["lifecycle"]["preStop"]["exec"]["command"]
    longest = 23  # seconds from the signal to the end of a node
    assert program == "sleep" and pod["spec"]["terminationGracePeriodSeconds"] > int(pause) + longest


def test_the_image_has_a_tag_and_a_pod_asks_for_the_memory_that_the_page_names() -> None:
    gateway, page = container(), (DEPLOY.parent / "docs/scale.md").read_text(encoding="utf-8")
    image, _, tag = gateway["image"].rpartition(":")
    assert re.fullmatch(r"\d+\.\d+\.\d+", tag) and f"--tag {image}:{tag} " in read("kubernetes.yaml")
    (section,) = re.findall(r'docs/scale\.md, "([^"]+)"', read("kubernetes.yaml"))
    assert f"## {section}\n" in page
    (megabytes,) = re.findall(r"edge processes of (\d+) MB, with half as much again", page)
    assert int(gateway["resources"]["requests"]["memory"].removesuffix("Mi")) >= int(megabytes) * 1.5


def test_the_page_names_every_file_of_the_folder() -> None:
    page = (DEPLOY.parent / "docs/scale.md").read_text(encoding="utf-8")
    assert [file.name for file in CLUSTER.iterdir() if file.is_file() and file.name not in page] == []


def test_the_secret_that_pods_need_is_the_one_that_the_command_makes() -> None:
    asked = [one["valueFrom"]["secretKeyRef"] for one in container()["env"] if "secretKeyRef" in str(one)]
    made = re.findall(r"--from-literal=([\w-]+)=", read("kubernetes.yaml"))
    assert {one["name"] for one in asked} == {"handspan"} and {one["key"] for one in asked} == set(made)
    assert "create secret generic handspan" in read("kubernetes.yaml")


@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml", "handspan@.service", "handspan-nodes.target"])
def test_a_file_that_was_not_run_says_so(name: str) -> None:
    comment = "".join(line for line in read(name).splitlines() if line.startswith("#"))
    assert "Not run here" in comment


@needs("systemd-analyze", "systemd")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    text = read("handspan@.service")
    (program,) = re.findall(r"^ExecStart=(\S+) serve --port %i$", text, re.MULTILINE)
    unit, target = tmp_path / "handspan@42617.service", tmp_path / "handspan-nodes.target"
    unit.write_text(text.replace(program, shutil.which("env") or ""), encoding="utf-8")  # it looks for the program
    target.write_text(read("handspan-nodes.target"), encoding="utf-8")
    said = run("systemd-analyze", "verify", str(unit), str(target))
    assert "handspan" not in said


@needs("nginx", "nginx-light")
@needs("openssl", "openssl")
def test_nginx_takes_the_site(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    text = read("nginx.conf").replace("/etc/ssl/handspan/fullchain.pem", str(certificate))
    whole = tmp_path / "nginx.conf"
    whole.write_text(around(tmp_path, text.replace("/etc/ssl/handspan/privkey.pem", str(key))), encoding="utf-8")
    log = str(tmp_path / "error.log")
    assert "successful" in run("nginx", "-t", "-p", str(tmp_path), "-c", str(whole), "-e", log)


@needs("caddy", "caddy")
def test_caddy_takes_its_file() -> None:
    said = run("caddy", "validate", "--adapter", "caddyfile", "--config", f"{CLUSTER}/Caddyfile")
    assert "Valid configuration" in said


@pytest.mark.skipif(NATS is None, reason="needs nats-server: apt-get install nats-server")
def test_nats_takes_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r"\$(NATS_\w+)", read("nats.conf")):
        monkeypatch.setenv(name, "secret")
    assert "is valid" in run(str(NATS), "-t", "--config", f"{CLUSTER}/nats.conf")
