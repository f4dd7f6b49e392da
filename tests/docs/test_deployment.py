"""The pages on deployment say what the commands do: units of systemd, words of refusal, entries of a policy."""

from __future__ import annotations

import configparser
import re
import shlex

import pytest
import yaml

from client import node_ledger
from client.learners import LEARNERS
from client.owner import agreement, error_disclosure, owner_refusals
from fedlearn.config.policy import Policy
from fedlearn.core.refusals import REFUSALS, word_for
from fedlearn.engine.deployment.monitor import ROUTES
from fedlearn.engine.deployment.server_processes import NEEDS
from tests.commands import COMMANDS, parsed
from tests.docs.pages import ROOT

HOWTO = ROOT / "docs" / "howto"
PAGES = {
    name: (HOWTO / f"{name}.md").read_text()
    for name in (
        "deployment",
        "deployment_owner",
        "deployment_upkeep",
        "kubernetes",
        "monitoring",
        "admission",
        "handbook",
    )
}
UNITS = dict(re.findall(r"```\{code-block\} ini\n:caption: (\S+)\n\n(.*?)```", PAGES["deployment"], re.DOTALL))


def unit(name):
    parser = configparser.RawConfigParser(strict=False)  # Environment= may stand more than once
    parser.optionxform = str
    parser.read_string(UNITS[name])
    return parser


@pytest.mark.parametrize("name", ["fedlearn-server.service", "fedlearn-client.service"])
def test_a_unit_starts_a_command_that_there_is_with_options_that_it_knows(name):
    service = unit(name)["Service"]
    program, command, *words = shlex.split(service["ExecStart"])
    assert program == "/usr/local/bin/fedlearn" and f"fedlearn-{command}.service" == name
    given = parsed(command, words)
    assert service["ReadWritePaths"] == service["WorkingDirectory"]  # all folders of the options lie below it
    folders = [str(given[option]) for option in ("keys", "state", "claims", "memory", "ledger") if given.get(option)]
    assert folders and not any(folder.startswith("/") for folder in folders)
    assert unit(name)["Install"]["WantedBy"] == "multi-user.target"
    assert service["Restart"] == "always"


MANIFESTS = [*yaml.safe_load_all((HOWTO / "kubernetes.yml").read_text())]
PODS = {
    each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in MANIFESTS if each["kind"] == "Deployment"
}


@pytest.mark.parametrize("name", ["fedlearn-server", "fedlearn-client"])
def test_a_pod_starts_a_command_whose_folders_are_mounted_and_its_probes_are_answered(name):
    (container,) = PODS[name]["containers"]
    program, command, *words = container["command"]
    assert program == "fedlearn" and name == f"fedlearn-{command}"
    given = parsed(command, words)
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    volumes = {each["name"] for each in PODS[name]["volumes"]}
    assert {each["name"] for each in mounts.values()} == volumes
    written = [str(given[option]) for option in ("state", "runs", "claims", "memory", "ledger") if given.get(option)]
    assert written and all(folder.startswith("/var/lib/fedlearn/") for folder in written)
    read = [str(given[option]) for option in ("keys", "policy", "root_certificates") if given.get(option)]
    assert all(mounts["/" + path.split("/")[1]].get("readOnly") for path in read)
    for variable in ("FEDLEARN_CACHE", "FLWR_HOME", "HOME"):
        value = next(each["value"] for each in container["env"] if each["name"] == variable)
        assert value.startswith(("/var/lib/fedlearn", "/tmp"))
    assert container["securityContext"]["readOnlyRootFilesystem"] and PODS[name]["securityContext"]["runAsNonRoot"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container.get(probe, {})
        if "httpGet" in asked:
            assert asked["httpGet"]["path"] in ROUTES
        elif "exec" in asked:
            assert asked["exec"]["command"][2:] == ["fedlearn.engine.deployment.healthy", given["health"]]
    for port in container.get("ports", []):
        option = {"clients": "listen", "metrics": "metrics"}[port["name"]]
        assert given[option].endswith(f":{port['containerPort']}")


def test_the_secret_of_the_servers_pod_has_the_files_that_its_parts_need():
    (keys,) = [each["secret"] for each in PODS["fedlearn-server"]["volumes"] if each["name"] == "keys"]
    assert {each["path"] for each in keys["items"]} == {file for files in NEEDS.values() for file in files}


def test_policies_and_services_name_the_ports_that_pods_open():
    by_kind = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in MANIFESTS}
    ports = {each["containerPort"] for each in PODS["fedlearn-server"]["containers"][0]["ports"]}
    let_in = by_kind["NetworkPolicy", "fedlearn-server"]["ingress"]
    assert {port["port"] for rule in let_in for port in rule["ports"]} == ports
    assert [each["port"] for each in by_kind["Service", "fedlearn-server"]["ports"]] == [8443]
    client = by_kind["NetworkPolicy", "fedlearn-client"]
    assert client["ingress"] == [] and {p["port"] for rule in client["egress"] for p in rule["ports"]} == {8443, 53}


def commands_in(text):
    blocks = re.findall(r"```(?:text|bash)\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [re.search(r"(?:^|sudo -u fedlearn |job )fedlearn ([a-z]+) (.*)$", line.strip()) for line in lines]
    return [(match[1], re.split(r" > | >> |  +#", match[2])[0]) for match in found if match]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_is_one_and_knows_its_options(page):
    found = commands_in(PAGES[page])
    assert len(found) >= 1
    for command, words in found:
        assert command in COMMANDS
        parsed(command, shlex.split(words))


def rows(text, head):
    table = text.partition(f"{head}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in table.splitlines()[1:]]


def test_the_words_of_refusal_stand_on_the_page_as_nodes_say_them():
    shown = rows(PAGES["deployment_owner"], "| word | means | the user of the server can |")
    assert shown == [[f"`{word}`", *refusal] for word, refusal in REFUSALS.items()]


def test_every_reason_that_is_no_word_stands_on_the_page():
    shown = " ".join(
        row[0] for row in rows(PAGES["deployment_owner"], "| reason in the log | what it is | what to do |")
    )
    reasons = {
        value
        for module in (owner_refusals, error_disclosure, node_ledger, agreement)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and re.fullmatch(r"[a-z]+(-[a-z]+)+", value)
    }
    assert {each for each in reasons - {*LEARNERS} if word_for(each) != each and f"`{each}`" not in shown} == set()


def test_the_policy_on_the_page_has_every_entry():
    shown = PAGES["deployment_owner"].partition(":caption: policy.toml\n\n")[2].partition("```")[0]
    assert {line.split(" = ")[0] for line in shown.splitlines()} == set(Policy.model_fields)


def test_the_duties_name_commands_that_there_are_and_threats_name_tests_that_there_are():
    page = (ROOT / "docs" / "explanations" / "duties.md").read_text()
    duties = rows(page, "| duty | fedlearn | NVFlare | Fed-BioMed | Flower |")
    assert len(duties) == 30 and sum(not row[1].startswith("no:") for row in duties) >= 27
    for row in duties:
        for command, option in re.findall(r"`fedlearn ([a-z]+)(?: (--[a-z-]+))?`", row[1]):
            assert command in COMMANDS
            assert not option or option in {each for one in COMMANDS[command].params for each in one.opts}
    threats = rows(page, "| who | tries | what happens | test |")
    assert len(threats) == 13
    for row in threats:
        for file in re.findall(r"`(tests/\S+\.py)`", row[3]):
            assert (ROOT / file).is_file()
