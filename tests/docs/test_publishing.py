"""What a forge and a package index read parses, and names what is there; none of the workflows is run here."""

from __future__ import annotations

import re
import tomllib
from urllib.parse import urlsplit

import jsonschema
import pytest
import yaml
from markdown_it import MarkdownIt

from tests.docs.pages import ROOT
from tests.docs.test_links import anchors_of

GITHUB = ROOT / ".github"
JOB = {"type": "object", "required": ["runs-on", "steps"]}
WORKFLOW = {
    "type": "object",
    "required": ["name", "on", "permissions", "jobs"],
    "properties": {"jobs": {"minProperties": 1, "additionalProperties": JOB}},
}


def read(path):
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # `on` is a key, not true


@pytest.mark.parametrize("name", ["ci", "release"])
def test_a_workflow_has_jobs_of_steps_and_least_rights(name):
    workflow = read(GITHUB / "workflows" / f"{name}.yml")
    jsonschema.validate(workflow, WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert all((ROOT / step["run"]).exists() for step in steps if step.get("run", "").startswith(".ci/"))


@pytest.mark.parametrize("name", ["bug", "wish"])
def test_a_form_asks_something(name):
    form = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    assert len({field["id"] for field in form["body"]}) == len(form["body"]) > 0


def test_read_the_docs_builds_the_site_that_make_docs_builds():
    asked = read(ROOT / ".readthedocs.yaml")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert (ROOT / asked["sphinx"]["configuration"]).is_file()
    assert set(asked["python"]["install"][0]["extra_requirements"]) <= set(extras)


def test_the_long_description_has_absolute_links_and_pictures():
    hatchling = pytest.importorskip("hatchling.metadata.core")
    plugins = pytest.importorskip("hatchling.plugin.manager").PluginManager()
    metadata = hatchling.ProjectMetadata(str(ROOT), plugins)
    html = MarkdownIt().enable("table").render(metadata.core.readme)
    links = re.findall(r'(?:href|src)="([^"]+)"', html)
    assert html.count("<img") > 1 and {link for link in links if urlsplit(link).scheme != "https"} == set()
    source = metadata.core.urls["Source"]
    ours = [
        re.sub(rf"{re.escape(source)}/(blob|raw)/main/", "", link) for link in links if link.startswith(f"{source}/")
    ]
    assert len(ours) > 20
    assert {link for link in ours if not leads_somewhere(*link.partition("#")[::2])} == set()


def leads_somewhere(path, heading):
    """Return whether a file of the repository exists, and has a heading."""
    return (ROOT / path).exists() and (not heading or heading in anchors_of(ROOT / path))
