"""docker-compose.yml follows the specification, and gives each service what it needs and no more."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
import yaml
from flwr.common.config import parse_config_args

from fedlearn.cli import app
from fedlearn.commands.client import OWNER
from fedlearn.config.policy import Policy
from fedlearn.engine.deployment import client_processes
from tests.commands import client_options as options_of
from tests.commands import parsed
from tests.compose import lock
from tests.compose.file import ComposeError, read_project
from tests.compose.schema import errors_of

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
SEES = {  # service -> its networks, the folders and files that it reads, the folders that it writes to
    "setup": (
        "", "",
        "/keys/authority /keys/public /keys/server /keys/secret /keys/nodes "
        "/state /cache /claims /memory /ledger /ask /runs",
    ),
    "superlink": ("control", "/keys/public /keys/server /keys/secret", "/state"),
    "proxy": ("outside fleet runtime control", "/keys/public /keys/server", ""),
    "serverapp": ("runtime", "/keys/public /keys/secret /data", "/cache /runs"),
    "client": ("fleet", "/keys/public /keys/nodes /policy.toml /peers /data", "/claims /memory /ledger /ask"),
    "job": ("control", "/keys/public /settings/run.toml", "/runs"),
}  # fmt: skip


def writable(service):
    return {mount.target for mount in service.mounts if not mount.read_only}


def test_the_file_follows_the_compose_specification():
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


def test_a_key_that_this_folder_cannot_do_is_an_error(tmp_path):
    (tmp_path / "docker-compose.yml").write_text("services: {one: {privileged: true}}")
    with pytest.raises(ComposeError, match="service 'one': tests/compose cannot do privileged"):
        read_project(tmp_path / "docker-compose.yml", {})


def test_services_networks_and_volumes_that_are_named_are_declared():
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


def test_what_the_owner_allows_reaches_the_clients_and_nobody_else(monkeypatch):
    said = {
        "LEDGER": "./ours", "POLICY": "./policy.toml", "DATA_NAME": "patients", "LARGEST_EPSILON": "3", "OWN_DATA": "1",
        "EPSILON_OF_A_RUN": "0.5", "LEAST_RECORDS": "80", "MODELS": "dp-forest,cnn", "PUBLIC_SIZES": "true",
        "SEEDED_NOISE": "false",
    }  # fmt: skip
    services = read_project(FILE, {f"FEDLEARN_{name}": value for name, value in said.items()})
    lie = {mount.target: mount.source for mount in services["client"].mounts}
    assert (lie["/ledger"], lie["/policy.toml"]) == (ROOT / "ours", ROOT / "policy.toml")
    assert {n for n, each in services.items() if "/ledger" in [m.target for m in each.mounts]} == {"client", "setup"}
    for name, value in services["client"].environment.items():
        monkeypatch.setenv(name, value)
    flags = options_of(services["client"].command)
    assert (flags.ledger, flags.policy, flags.data_name) == (Path("/ledger"), Path("/policy.toml"), "patients")
    without_file = replace(flags, policy=None)  # which is not there
    assert parse_config_args([client_processes.privacy_config(without_file)]) == {
        "ledger": "/ledger", "data-name": "patients", "largest-epsilon": 3.0, "epsilon-of-a-run": 0.5,
        "least-records": 80, "models": "dp-forest,cnn", "public-sizes": True,
    }  # fmt: skip
    assert flags.own_data and not flags.allowed["seeded_noise"]


@pytest.mark.parametrize("service", ["setup", "superlink", "proxy", "serverapp", "client", "job"])
def test_the_commands_of_services_are_fedlearns_and_their_options_are_known(service):
    program, name, *words = read_project(FILE, {})[service].command
    assert program == "fedlearn"
    parsed(name, words)


def test_without_the_owners_variables_the_clients_have_no_ledger(monkeypatch):
    client_service = read_project(FILE, {})["client"]
    for name, value in client_service.environment.items():
        monkeypatch.setenv(name, value)
    flags = options_of(client_service.command)
    assert (client_processes.privacy_config(flags), flags.own_data) == ("", False)


def test_every_flag_of_the_owner_has_a_variable():
    flags = typer.main.get_command(app).commands["client"].params
    named = {flag.envvar for flag in flags if getattr(flag, "envvar", None)} - {"FEDLEARN_PARTITION"}
    owners = {flag.name for flag in flags if getattr(flag, "rich_help_panel", "") == OWNER}
    assert named >= {f"FEDLEARN_{name.upper()}" for name in owners} and set(Policy.model_fields) < owners
    assert named <= read_project(FILE, {})["client"].environment.keys()
    head = FILE.read_text().partition("\nname:")[0]
    assert [name for name in named if name not in head] == []


def test_a_service_sees_its_own_networks_and_folders_alone():
    services = read_project(FILE, {})
    assert set(services) == set(SEES)
    for name, service in services.items():
        networks, read, written = map(str.split, SEES[name])
        assert set(service.networks) == set(networks), name
        assert {mount.target for mount in service.mounts if mount.read_only} == set(read), name
        assert writable(service) == set(written), name
    assert services["setup"].networks == {} and services["superlink"].networks == {"control": "10.87.41.10"}


def test_only_the_network_of_the_published_port_leads_outside():
    networks = yaml.safe_load(FILE.read_text())["networks"]
    assert [name for name, body in networks.items() if not body.get("internal")] == ["outside"]


def test_a_service_that_a_command_names_shares_a_network_and_listens_at_the_port():
    services = read_project(FILE, {})
    texts = {name: [*each.command, *(m.content for m in each.mounts)] for name, each in services.items()}
    listens = {
        name: set(re.findall(r"--(?:listen|runtime|superlink)=0\.0\.0\.0:(\d+)", " ".join(texts[name])))
        for name in ("proxy", "superlink")
    }
    named = {
        (name, *found)
        for name, words in texts.items()
        for found in re.findall(rf"\b({'|'.join(services)}):(\d+)", " ".join(words))
    }
    assert {(name, other) for name, other, _ in named} == {
        ("proxy", "superlink"), ("serverapp", "proxy"), ("client", "proxy"), ("job", "superlink"),
    }  # fmt: skip
    for name, other, port in named:
        assert set(services[name].networks) & set(services[other].networks) and port in listens[other]


def test_what_is_written_below_a_read_only_root_lies_in_memory_or_in_a_folder_of_the_service():
    for name, service in read_project(FILE, {}).items():
        text = " ".join([*service.command, *(mount.content for mount in service.mounts)])
        written = re.findall(r"--(?:state|claims|memory|runs|give|folder)=(/\S+)|(?:pid|\w+_temp_path) (/\S+);", text)
        written = [*map("".join, written), service.environment["HOME"], service.environment["FLWR_HOME"]]
        places = {*service.tmpfs, *writable(service), "/keys" if name == "setup" else "/tmp"}
        assert [path for path in written if not any(Path(path).is_relative_to(place) for place in places)] == []


def test_the_setup_gives_the_others_what_they_write_to():
    services = read_project(FILE, {"FEDLEARN_UID": "7", "FEDLEARN_GID": "8"})
    setup = services.pop("setup")
    given = {word.removeprefix("--give=") for word in setup.command if word.startswith("--give=")}
    assert given == {target for service in services.values() for target in writable(service)}
    assert "--owner=7:8" in setup.command
    assert {service.user for service in services.values()} == {"7:8"}


def test_only_the_proxy_is_published_and_only_the_setup_is_root():
    tree = yaml.safe_load(FILE.read_text())
    assert [name for name, body in tree["services"].items() if body.get("ports")] == ["proxy"]
    services = read_project(FILE, {})
    assert [name for name, service in services.items() if service.user.split(":")[0] == "0"] == ["setup"]
    assert all(service.read_only for service in services.values())
    assert services["setup"].capabilities == ("CHOWN", "DAC_OVERRIDE", "FOWNER")
    assert {service.capabilities for name, service in services.items() if name != "setup"} == {()}
    assert {tuple(body["security_opt"]) for body in tree["services"].values()} == {("no-new-privileges:true",)}
    assert not any(mount.target.endswith("docker.sock") for s in services.values() for mount in s.mounts)


def test_what_is_run_from_a_cache_no_other_party_writes():
    services = read_project(FILE, {"FEDLEARN_UID": "7", "FEDLEARN_GID": "8"})
    cached = {name for name, each in services.items() for mount in each.mounts if mount.target.startswith("/cache")}
    assert cached == {"serverapp", "setup"}  # which gives it to the server app, and runs nothing of it
    assert services["client"].tmpfs["/cache"] == "mode=0700,uid=7,gid=8"
    assert services["client"].environment["FEDLEARN_CACHE"] == services["serverapp"].environment["FEDLEARN_CACHE"]


def test_the_image_is_made_from_what_is_named_by_checksum():
    build = next(
        service.build for service in read_project(FILE, {"FEDLEARN_BASE": "x@sha256:y"}).values() if service.build
    )
    steps = build["dockerfile_inline"]
    assert build["args"]["BASE"] == "x@sha256:y"
    assert [line for line in steps.splitlines() if line.startswith("FROM")] == ["FROM $BASE"]
    installs = [line for line in steps.splitlines() if "pip install" in line]
    assert all("--require-hashes" in line or "--no-build-isolation" in line for line in installs)
    assert all("--no-deps" in line for line in installs)


def pinned():
    """Return version, number of files, and who asks for it, of each package that the image installs."""
    form = r"^([a-z0-9-]+)==(\S+) ((?:\\\n    --hash=sha256:[0-9a-f]{64} ?)+)\n    # for (.*)\n"
    text = lock.FILE.read_text(encoding="utf-8")
    assert re.sub(form, "", text, flags=re.MULTILINE) == lock.HEAD
    found = re.findall(form, text, re.MULTILINE)
    return {name: (version, hashes.count("--hash"), who.split(", ")) for name, version, hashes, who in found}


def is_within(version, requirement):
    def numbers(text):
        return tuple(map(int, re.findall(r"\d+", text)))

    holds = {">=": lambda bound: numbers(version) >= bound, "<": lambda bound: numbers(version) < bound}
    return all(holds[sign](numbers(bound)) for sign, bound in re.findall(r"([<>]=?)([\d.]+)", requirement))


def test_what_is_installed_is_what_is_declared_and_what_that_asks_for():
    pins, declared = pinned(), {lock.name_of(each): each for each in lock.declared()}
    assert {name for name, (_, _, who) in pins.items() if "pyproject.toml" in who} == set(declared)
    for name, requirement in declared.items():
        assert is_within(pins[name][0], requirement), requirement
    assert {one for _, _, who in pins.values() for one in who} <= {"pyproject.toml", *pins}
    assert all(number <= len(lock.PROCESSORS) for _, number, _ in pins.values())


def test_no_address_is_named_where_checksums_are():
    assert "://" not in lock.FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["torch", "torchvision", "numpy", "pyarrow"])
def test_each_kind_of_processor_has_its_file(name):
    assert pinned()[name][1] == len(lock.PROCESSORS)


def test_a_package_for_a_gpu_or_of_two_versions_is_not_locked():
    for wrong in (["nvidia-x"], ["x", "x"]):
        with pytest.raises(SystemExit):
            lock.written([{(name, str(number)): lock.Package({"a"})} for number, name in enumerate(wrong)])
