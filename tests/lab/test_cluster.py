"""Runs on a dask cluster: a real scheduler and workers, each a process that a test starts."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import types
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pytest
import runs

from attn_core.lab import __main__ as command
from attn_core.lab.cluster import connect
from attn_core.lab.sweep import sweep, versions

distributed = pytest.importorskip("distributed")
PATIENCE = 60


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"still waiting until {what}"
        time.sleep(0.05)
    return found


@contextmanager
def dask(folder, *arguments, path=()):
    """A process of dask's command line. path: folders where it looks for modules first."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, path), *sys.path]), "OMP_NUM_THREADS": "1"}
    with open(folder / "log of dask", "a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *map(str, arguments)], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """That of a scheduler on this machine, any free port."""
    folder = tmp_path_factory.mktemp("scheduler")
    file = folder / "address.json"
    options = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
    with dask(folder, "scheduler", *options) as process:

        def written():
            assert process.poll() is None, (folder / "log of dask").read_text()
            try:
                return json.loads(file.read_text())["address"]
            except (FileNotFoundError, json.JSONDecodeError):
                return None

        yield wait_until(written, "the scheduler has an address")


@pytest.fixture
def workers(address, tmp_path):
    """Start some, and wait for them; afterwards wait until the scheduler knows that they have ended."""

    def start(count, threads=1, path=()):
        options = ("--host", "127.0.0.1", "--nthreads", threads, "--no-nanny", "--no-dashboard")
        processes = [stack.enter_context(dask(tmp_path, "worker", address, *options, path=path)) for _ in range(count)]
        wait_until(lambda: len(client.nthreads()) == count, "the scheduler has its workers")
        return processes

    with distributed.Client(address, set_as_default=False) as client:
        with ExitStack() as stack:
            yield start
        wait_until(lambda: not client.nthreads(), "the scheduler has no worker")


def numbered(folder, count):
    return [{"x": x, "folder": str(folder)} for x in range(count)]


def without_seconds(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def fake(folder, run=runs.square):
    return types.SimpleNamespace(
        __doc__="What is a square?",
        SETTINGS={"power": 2},
        configurations=lambda seeds, quick: numbered(folder, seeds),
        run=run,
    )


def refusal(capsys, folder, address, **experiments):
    """The sentence, and how long it took."""
    start = time.monotonic()
    with pytest.raises(SystemExit) as stopped:
        arguments = ["--all", "--scheduler", address, "--results", str(folder / "results")]
        command.main(arguments, experiments=experiments or {"fake": fake(folder)})
    assert stopped.value.code == 2
    assert not (folder / "results").exists() and runs.called(folder) == []
    return capsys.readouterr().err.splitlines()[-1].partition(": error: ")[2], time.monotonic() - start


def test_a_sweep_that_loses_a_worker_is_complete_and_that_of_this_machine(workers, address, tmp_path):
    processes = workers(2)

    def kill_the_hanging():
        number = int(wait_until(lambda: hanging.exists() and hanging.read_text(), "a run hangs"))
        killed.append(number)
        os.kill(number, signal.SIGKILL)

    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    hanging, killed, store = tmp_path / "there" / "hanging", [], tmp_path / "store"
    Thread(target=kill_the_hanging, daemon=True).start()
    with connect(address) as client:
        there = sweep(numbered(tmp_path / "there", 12), runs.hangs_once_at_three, client.get_executor(), store=store)
    assert killed[0] in [process.pid for process in processes]
    assert runs.called(tmp_path / "there").count(3) == 2  # once on each worker
    (tmp_path / "here" / "called").write_text("3\n")  # does not hang
    here = sweep(numbered(tmp_path / "here", 12), runs.hangs_once_at_three, workers=1)
    assert there.failures == here.failures == []
    text = json.dumps(without_seconds(here.rows)).replace(str(tmp_path / "here"), str(tmp_path / "there"))
    assert without_seconds(there.rows) == json.loads(text)
    kept = [json.loads(line)["configuration"]["x"] for line in store.read_text().splitlines()]
    assert sorted(kept) == list(range(12))


def test_the_command_sends_its_runs_to_the_workers_and_writes_what_it_writes_without(workers, address, tmp_path):
    processes = workers(2)
    results = {}
    for name, options in {"there": ["--scheduler", address], "here": ["--workers", "2"]}.items():
        arguments = ["fake", *options, "--results", str(tmp_path / name)]
        assert command.main(arguments, experiments={"fake": fake(tmp_path, runs.identified)}) == 0
        results[name] = json.loads((tmp_path / name / "fake.json").read_text())
        assert [path.name for path in (tmp_path / name).iterdir()] == ["fake.json"]
    ran_in = {name: {row.pop("process") for row in result["rows"]} for name, result in results.items()}
    assert ran_in["there"] <= {process.pid for process in processes}
    assert not ran_in["here"] & ran_in["there"]
    for result in results.values():
        result["rows"] = without_seconds(result["rows"])
        del result["seconds"], result["seconds_of_runs"]
    assert results["there"] == results["here"]


@pytest.mark.parametrize("name", ["head_speed", "peak_memory", "another with WORKERS"])
def test_what_measures_the_machine_runs_here(workers, address, tmp_path, capsys, name):
    processes = workers(1)
    experiment = fake(tmp_path, runs.identified)
    if "WORKERS" in name:
        experiment.WORKERS = 1
    arguments = [name, "--scheduler", address, "--workers", "1", "--results", str(tmp_path / "results")]
    assert command.main(arguments, experiments={name: experiment}) == 0
    rows = json.loads((tmp_path / "results" / f"{name}.json").read_text())["rows"]
    assert not {row["process"] for row in rows} & {process.pid for process in processes}
    assert capsys.readouterr().out.splitlines()[0] == f"{name} measures the machine and runs on this one."
    assert name not in command.EXPERIMENTS or name in command.OF_THIS_MACHINE


@pytest.mark.parametrize("given", ["", "nonsense", "tcp://127.0.0.1", "127.0.0.1:port", "foo://127.0.0.1:8786"])
def test_a_malformed_address_gets_a_sentence(capsys, tmp_path, given):
    sentence, _ = refusal(capsys, tmp_path, given)
    assert sentence == (
        f"no dask scheduler answers at {given!r}, which must be an address that `dask scheduler` prints, "
        "such as tcp://192.0.2.1:8786"
    )


@pytest.mark.parametrize("listens", [False, True])
def test_a_scheduler_that_does_not_answer_gets_a_sentence_soon(capsys, tmp_path, listens):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        if listens:  # and says nothing
            other.listen()
        given = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        sentence, seconds = refusal(capsys, tmp_path, given)
    assert sentence.startswith(f"no dask scheduler answers at {given!r}, which must be")
    assert seconds < 15  # five, and what a busy machine adds


def test_a_scheduler_without_workers_gets_a_sentence(workers, address, capsys, tmp_path):
    sentence, _ = refusal(capsys, tmp_path, address)
    assert sentence == (f"the scheduler has no worker; start some: dask worker {address} --nthreads 1 --nworkers 4")


def test_a_worker_with_several_threads_gets_a_sentence(workers, address, capsys, tmp_path):
    workers(1, threads=3)
    sentence, _ = refusal(capsys, tmp_path, address)
    assert sentence.startswith("a worker must have one thread, and tcp://127.0.0.1:")
    assert sentence.endswith(f" has 3; start it again: dask worker {address} --nthreads 1 --nworkers 3")


def other_course(folder, **modules):
    """A package attn_core.lab with these modules, to be found before ours."""
    lab = folder / "other" / "attn_core" / "lab"
    lab.mkdir(parents=True)
    for path in (lab.parent / "__init__.py", lab / "__init__.py"):
        path.touch()
    for name, text in modules.items():
        (lab / f"{name}.py").write_text(text)
    return folder / "other"


def test_a_worker_with_another_torch_gets_a_sentence(workers, address, capsys, tmp_path):
    theirs = versions() | {"torch": "1.0.0"}
    workers(1, path=[other_course(tmp_path, sweep=f"def versions():\n    return {theirs}\n")])
    sentence, _ = refusal(capsys, tmp_path, address)
    assert sentence.startswith(
        f"the worker must have the versions of the sweep, and has torch 1.0.0 and not {versions()['torch']} (tcp://"
    )


def test_a_worker_without_the_course_gets_a_sentence(workers, address, capsys, tmp_path):
    workers(1, path=[other_course(tmp_path)])
    sentence, _ = refusal(capsys, tmp_path, address)
    assert sentence.startswith("the worker must be able to import attn_core, and says ModuleNotFoundError")


def test_without_dask_the_sentence_names_the_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    sentence, _ = refusal(capsys, tmp_path, "tcp://127.0.0.1:8786")
    assert sentence == "a scheduler needs dask: pip install -e '.[cluster]'"


def test_the_extra_and_the_development_of_the_course_ask_for_the_same_dask():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    assert set(extras["cluster"]) <= set(extras["dev"])
