"""docker-compose.yml is what `docker compose config` would accept, and what the harness can start."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.compose.file import read_project
from tests.compose.schema import errors_of

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"


def test_it_follows_the_compose_specification():
    assert errors_of(yaml.safe_load(FILE.read_text())) == []


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"services": {"a": {"comand": ["x"]}}}, "services/a"),
        ({"services": {"a": {"depends_on": {"b": {"condition": "service_up"}}}}}, "services/a/depends_on"),
        ({"services": {"a": {"healthcheck": {"retries": []}}}}, "services/a/healthcheck/retries"),
    ],
)
def test_the_schema_refuses_what_is_wrong(wrong, where):
    (error,) = errors_of(wrong)
    assert error.startswith(where)


def test_all_that_it_refers_to_is_there():
    tree, services = yaml.safe_load(FILE.read_text()), read_project(FILE, {})
    for service in services.values():
        assert set(service.depends_on) <= set(services)
        assert set(service.networks) <= set(tree["networks"])
        for condition, name in ((c, n) for n, c in service.depends_on.items()):
            assert condition != "service_healthy" or services[name].health, f"{name} has no health check"
    used = {mount.volume for service in services.values() for mount in service.mounts if mount.volume}
    assert used == set(tree["volumes"])


def test_variables_have_their_effect():
    services = read_project(FILE, {"CLIENTS": "10"})
    assert services["client"].replicas == 10
    assert "--set=clients=10" in services["job"].command


def test_nothing_is_published_but_the_proxy_and_nobody_is_root_but_the_setup():
    tree = yaml.safe_load(FILE.read_text())
    assert [name for name, body in tree["services"].items() if body.get("ports")] == ["proxy"]
    services = read_project(FILE, {})
    assert [name for name, service in services.items() if service.user.split(":")[0] == "0"] == ["setup"]
    assert all(service.read_only and service.capabilities is not None for service in services.values())
    assert not any(mount.target.endswith("docker.sock") for s in services.values() for mount in s.mounts)
