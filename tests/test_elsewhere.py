"""What the course needs to open in places that these tests cannot reach, checked as far as its files allow."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    if not listed:
        pytest.skip("this copy is not tracked by git")
    return set(listed)


def test_the_dev_container_has_a_suitable_python_and_sets_the_course_up():
    container = json.loads(read(".devcontainer/devcontainer.json"))
    (python,) = re.findall(r"^python:(\d+\.\d+)-", container["image"])
    requires = re.search(r'requires-python = "(.*)"', read("pyproject.toml"))[1]
    assert f"{python}.99" in SpecifierSet(requires)
    (target,) = re.findall(r"^make ([a-z]+)$", container["postCreateCommand"])
    assert re.search(rf"^{target}:", read("Makefile"), re.MULTILINE)
    interpreter = container["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert interpreter.endswith("/.venv/bin/python")


def test_binder_finds_the_environment_in_the_root_and_nothing_that_would_hide_it():
    # repo2docker prefers these folders to the root, and a Dockerfile or other files to environment.yml.
    files = tracked()
    hiding = [name for name in files if re.match(r"\.?binder/|(Dockerfile|Project\.toml|JuliaProject\.toml)$", name)]
    assert "environment.yml" in files
    assert hiding == []
    python = next(entry for entry in yaml.safe_load(read("environment.yml"))["dependencies"] if "python" in entry)
    assert re.fullmatch(r"python=3\.\d+", python)  # repo2docker reads the version from this form
