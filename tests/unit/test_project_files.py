"""Workflows, hooks, templates, the Dockerfile: they name targets, files and tools that exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.paths import ROOT
from helpers.requirements import PROJECT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE)


def parsed(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def jobs(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = parsed(file)["jobs"]
    return found


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(file).values() for step in job.get("steps", [])]


# -- the Makefile ----------------------------------------------------------------------------------------------


def test_every_target_is_listed_by_help() -> None:
    described = re.findall(r"^([a-z][a-z-]*):.* ## \S", MAKEFILE, re.MULTILINE)
    assert described == TARGETS
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony and sorted(phony[1].split()) == sorted(TARGETS)


# -- workflows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_runs_targets_of_the_makefile(file: Path) -> None:
    commands = [line for step in steps(file) if "run" in step for line in step["run"].splitlines()]
    assert commands
    for command in commands:
        assert re.fullmatch(r'make [a-z-]+( TAG="\$GITHUB_REF_NAME")?', command), command
        assert command.split()[1] in TARGETS


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_pinned(file: Path) -> None:
    used = [step["uses"] for step in steps(file) if "uses" in step]
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", one) for one in used), used
    called = [job["uses"] for job in jobs(file).values() if "uses" in job]
    assert all((ROOT / one).is_file() for one in called)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_may_do_only_what_it_needs(file: Path) -> None:
    assert parsed(file)["permissions"] == {"contents": "read"}
    for name, job in jobs(file).items():
        assert set(job.get("needs", "").split()) <= jobs(file).keys()
        assert "uses" in job or job["timeout-minutes"] <= 60, name
        assert "secrets" not in str(job), "releases use trusted publishing"


def test_workflows_try_every_python() -> None:
    (tested,) = (file for file in WORKFLOWS if file.stem == "test")
    assert jobs(tested)["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {step["run"] for step in steps(tested) if "run" in step} == {"make test", "make try-wheel", "make docs"}


def test_only_the_job_that_publishes_may_publish() -> None:
    (released,) = (file for file in WORKFLOWS if file.stem == "release")
    assert parsed(released)[True] == {"push": {"tags": ["v*"]}}, "YAML reads `on` as true"
    allowed = {name: job.get("permissions", {}) for name, job in jobs(released).items()}
    assert allowed["publish"] == {"id-token": "write"} and "attestations" in allowed["build"]
    assert jobs(released)["publish"]["needs"] == "build" and jobs(released)["build"]["needs"] == "test"


# -- releases --------------------------------------------------------------------------------------------------


def check_tag(tag: str) -> None:
    runpy.run_path(str(ROOT / "scripts" / "check_tag.py"))["main"]([tag])


def test_a_tag_is_the_version() -> None:
    check_tag(f"v{PROJECT['version']}")
    for wrong in (PROJECT["version"], "v99.0.0", ""):
        with pytest.raises(SystemExit, match=re.escape(f"v{PROJECT['version']}")):
            check_tag(wrong)


def test_the_changelog_is_ordered_by_release() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles[:2] == ["Unreleased", PROJECT["version"]]
    versions = [[int(part) for part in title.split(".")] for title in titles[1:]]
    assert versions == sorted(versions, reverse=True)
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= {"Added", "Changed", "Fixed", "Removed"}


def test_the_version_is_written_once() -> None:
    places = [ROOT / "CITATION.cff", ROOT / "README.md", *(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    named = re.compile(rf'version"?\s*[:=]\s*"?{re.escape(PROJECT["version"])}\b')
    assert not [file for file in places if named.search(file.read_text(encoding="utf-8"))]


# -- hooks and templates ---------------------------------------------------------------------------------------


def test_hooks_run_the_tools_of_the_environment() -> None:
    developing = " ".join(PROJECT["optional-dependencies"]["dev"])
    hooks = [hook for repo in parsed(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["id"] for hook in hooks] == ["ruff", "ruff-format", "mypy"]
    for hook in hooks:
        program = re.match(r"\.venv/bin/(\w+)", hook["entry"])
        assert program and program[1] in developing and hook["language"] == "system"


@pytest.mark.parametrize("file", [one for one in TEMPLATES if one.stem != "config"], ids=lambda file: file.stem)
def test_issue_forms_are_complete(file: Path) -> None:
    form = parsed(file)
    assert form.keys() >= {"name", "description", "body"}
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert fields and all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


# -- images ----------------------------------------------------------------------------------------------------


def stages() -> dict[str, list[tuple[str, str]]]:
    """The instructions of the Dockerfile by the name of their stage."""
    text = re.sub(r"^#.*\n|\\\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: dict[str, list[tuple[str, str]]] = {}
    stage = ""
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        stage = rest.rpartition(" AS ")[2] if word == "FROM" else stage
        found.setdefault(stage, []).append((word, rest))
    return found


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_an_image_does_not_run_as_root(target: str) -> None:
    last = stages()[target][-1]
    assert last == ("USER", "loopmt")
    assert ("ENTRYPOINT", '["loopmt"]') in stages()["packages"] and "loopmt" in PROJECT["scripts"]


def test_an_image_is_made_from_files_that_docker_is_sent() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored, "nothing else is sent"
    copied = [rest.split()[:-1] for steps in stages().values() for word, rest in steps if word == "COPY"]
    own = {source for sources in copied for source in sources if not sources[0].startswith("--")}
    assert own == sent and all((ROOT / name).exists() for name in own)
