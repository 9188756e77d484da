"""The command line of the experiments, and the results that are committed."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import runs
import torch

from attn_core.lab import __main__ as command
from attn_core.lab.experiments import extrapolation
from attn_core.lab.sweep import sweep, versions

COMMITTED = sorted(path for path in command.RESULTS.glob("*.json") if not path.stem.endswith("-quick"))


@pytest.fixture
def main(tmp_path, monkeypatch):
    """The command, on a folder and an experiment of this test, with threads in place of processes."""
    monkeypatch.setenv("TQDM_DISABLE", "1")  # stderr is read
    with ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(command, "sweep", partial(sweep, executor=pool))
        yield lambda *arguments, **fakes: command.main(list(arguments), tmp_path, fakes or {"fake": fake(tmp_path)})


def fake(folder, run=runs.fails_at_two, counts=(0, 1), settings=None):
    return types.SimpleNamespace(
        __doc__="What is a square,\nand why?\n\nMore than a question.",
        SETTINGS=settings or {"power": 2},
        configurations=lambda seeds, quick: [
            {"x": x + (10 if quick else 0), "folder": str(folder)} for x in range(counts[0], counts[1] + seeds)
        ],
        run=run,
    )


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.name not in ("called", "mended"))


def read(path):
    """Strictly: Python alone would take NaN as well."""

    def refuse(constant):
        raise ValueError(f"{constant} is no JSON")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def misuse(main, capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(*arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_list_shows_each_name_with_its_question(main, capsys, tmp_path):
    assert main("--list", fake=fake(tmp_path), extrapolation=extrapolation) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=1) == ["fake", "What is a square, and why?"]
    assert second.split(maxsplit=1)[1].startswith("Train short, test long: which encoding")
    assert files(tmp_path) == []


def test_the_command_lists_the_experiments_of_the_course():
    shown = subprocess.run(
        [sys.executable, "-m", "attn_core.lab", "--list"], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[0] for line in shown.splitlines()] == list(command.EXPERIMENTS)
    assert all(line.endswith("?") for line in shown.splitlines())


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ("nonsense fake", "there is no experiment nonsense; there are fake"),
        ("", "name experiments or ask for --all; --list shows them"),
        ("fake --all", "name experiments or ask for --all; --list shows them"),
        ("fake --seeds 9", "a result needs at least 10 seeds, got 9; add --quick to try things out"),
        ("fake --seeds 0 --quick", "must be a positive integer, got 0"),
        ("fake --workers -1", "must be a positive integer, got -1"),
    ],
)
def test_misuse_gets_a_sentence_and_nothing_runs(main, capsys, tmp_path, arguments, sentence):
    assert sentence in misuse(main, capsys, *arguments.split())
    assert files(tmp_path) == [] == runs.called(tmp_path)


def test_a_result_is_json_with_one_row_a_line_and_says_how_it_was_made(main, tmp_path, capsys):
    assert main("fake", "--seeds", "10", "--workers", "2", fake=fake(tmp_path, run=runs.square)) == 0
    assert files(tmp_path) == ["fake.json"]
    result = read(tmp_path / "fake.json")
    rows = result.pop("rows")
    assert [row["square"] for row in rows] == [x * x for x in range(11)]
    seconds, of_runs = result.pop("seconds"), result.pop("seconds_of_runs")
    assert seconds >= 0 and of_runs == pytest.approx(sum(row["seconds"] for row in rows), abs=0.06)
    assert result == {
        "experiment": "fake",
        "question": "What is a square, and why?",
        "made_by": "python -m attn_core.lab fake --seeds 10 --workers 2",
        "settings": {"power": 2},
        "workers": 2,
        **versions(),
    }
    lines = (tmp_path / "fake.json").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line.rstrip(",")) for line in lines if line.startswith("  {")] == rows
    assert capsys.readouterr().out.startswith("fake.json: 11 rows, ")


def test_the_time_of_a_run_with_several_rows_is_counted_once(main, tmp_path):
    experiment = fake(tmp_path, run=lambda x, folder: [{"n": n} for n in range(3)], counts=(0, -9))
    experiment.configurations = lambda seeds, quick: [{"x": [1, 2], "folder": str(tmp_path)}]  # a list as a setting
    assert main("fake", fake=experiment) == 0
    result = read(tmp_path / "fake.json")
    assert len(result["rows"]) == 3
    assert result["seconds_of_runs"] == round(result["rows"][0]["seconds"], 1)


def test_an_experiment_that_sets_its_workers_has_them_whatever_is_asked(main, tmp_path):
    experiment = fake(tmp_path, run=runs.square)
    experiment.WORKERS = 1
    assert main("fake", "--workers", "2", fake=experiment) == 0
    result = read(tmp_path / "fake.json")
    assert result["workers"] == 1 and result["made_by"].endswith("--workers 1")
    assert command.EXPERIMENTS["head_speed"].WORKERS == 1  # it measures time


def test_quick_writes_beside_the_result_and_leaves_it_alone(main, tmp_path):
    main("fake", fake=fake(tmp_path, run=runs.square))
    before = (tmp_path / "fake.json").read_bytes()
    assert main("fake", "--quick", "--seeds", "1", fake=fake(tmp_path, run=runs.square)) == 0
    assert files(tmp_path) == ["fake-quick.json", "fake.json"]
    assert (tmp_path / "fake.json").read_bytes() == before
    quick = read(tmp_path / "fake-quick.json")
    assert [row["x"] for row in quick["rows"]] == [10, 11]
    assert quick["made_by"].startswith("python -m attn_core.lab fake --quick --seeds 1 --workers ")


def test_a_failing_run_writes_no_result_and_the_next_call_goes_on(main, tmp_path, capsys):
    assert main("fake") == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith('failed: {"x": 2, "folder": ') and errors[0].endswith("TwoArguments: one and two")
    assert errors[1] == "1 runs of fake failed. The others are kept: run it again to go on."
    assert not (tmp_path / "fake.json").exists()
    (tmp_path / "mended").touch()
    assert main("fake") == 0
    assert files(tmp_path) == ["fake.json"]
    assert runs.called(tmp_path) == [0, 1, 2, 2, *range(3, 11)]


def test_a_failing_run_leaves_the_old_result(main, tmp_path):
    (tmp_path / "mended").touch()
    assert main("fake") == 0
    before = (tmp_path / "fake.json").read_bytes()
    (tmp_path / "mended").unlink()
    assert main("fake") == 1
    assert (tmp_path / "fake.json").read_bytes() == before


def test_runs_made_with_other_settings_are_not_taken_over(main, tmp_path):
    assert main("fake") == 1
    assert main("fake", fake=fake(tmp_path, run=runs.square, settings={"power": 3})) == 0
    assert [runs.called(tmp_path).count(x) for x in (0, 1)] == [2, 2]


def test_all_runs_every_experiment_even_after_one_that_fails(main, tmp_path):
    good, bad = fake(tmp_path, run=runs.square), fake(tmp_path)
    assert main("--all", one=bad, two=good) == 1
    assert "two.json" in files(tmp_path) and "one.json" not in files(tmp_path)


@pytest.mark.parametrize("broken", ["values", "disk"])
def test_a_failure_while_writing_leaves_the_old_result(tmp_path, monkeypatch, broken):
    path = tmp_path / "fake.json"
    command.write_result(path, {"a": 1}, [{"x": 1}])
    before = path.read_bytes()
    if broken == "disk":

        def half(self, text, **options):
            with open(self, "w") as file:
                file.write(text[:10])
            raise OSError("no space left")

        monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises((TypeError, OSError)):
        command.write_result(path, {"a": 2}, [{"x": torch.ones(1) if broken == "values" else 2}])
    assert path.read_bytes() == before


@pytest.mark.parametrize("there", ["a file in its place", "a file above it"])
def test_a_folder_that_cannot_be_written_is_told_before_the_work(main, tmp_path, capsys, there):
    (tmp_path / "taken").touch()
    folder = tmp_path / "taken" / "below" if there == "a file above it" else tmp_path / "taken"
    told = misuse(main, capsys, "fake", "--results", str(folder))
    assert f"error: results cannot be written into {folder}: " in told
    assert runs.called(tmp_path) == []


def test_a_result_that_cannot_be_written_keeps_its_runs(main, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    experiment = fake(tmp_path, run=runs.square)
    with monkeypatch.context() as broken:
        broken.setattr(command, "write_result", full)
        assert main("fake", fake=experiment) == 1
    told = capsys.readouterr().err
    assert "fake.json cannot be written: No space left on device. The runs are kept in " in told
    assert main("fake", fake=experiment) == 0
    assert sorted(runs.called(tmp_path)) == [*range(11)]  # each once
    assert files(tmp_path) == ["fake.json"]


def test_results_go_into_the_folder_that_is_asked_for(main, tmp_path):
    folder = tmp_path / "some where" / "else"
    assert main("fake", "--results", str(folder), fake=fake(tmp_path, run=runs.square)) == 0
    assert files(folder) == ["fake.json"]
    assert files(tmp_path) == ["some where"]
    assert str(folder) not in read(folder / "fake.json")["made_by"]


def test_an_experiment_after_the_one_that_is_stopped_does_not_begin(main, tmp_path, capsys, monkeypatch):
    def stopped(configurations, run, store, **options):
        sweep(configurations[:2], run, store=store)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "sweep", stopped)
    one, two = fake(tmp_path, run=runs.square), fake(tmp_path, run=runs.square)
    assert main("--all", one=one, two=two) == 130
    assert capsys.readouterr().err == "Stopped. 2 runs are kept; run it again to go on.\n"
    assert [name.partition("-")[0] for name in files(tmp_path)] == ["one"]


@pytest.mark.skipif(os.name == "nt", reason="a group of processes gets Ctrl-C in another way there")
@pytest.mark.parametrize("when", ["a run sleeps", "the processes begin"])
def test_ctrl_c_prints_one_sentence_and_nothing_else(tmp_path, when):
    code = "import signal, sys, runs, attn_core.lab.__main__ as command; from test_main import fake\n"
    code += "if __name__ == '__main__':\n    folder = sys.argv[1]\n"
    # A shell may have started the tests in the background, and then Ctrl-C is ignored unless one asks for it.
    code += "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "    experiments = {'fake': fake(folder, run=runs.sleeps_after_the_first)}\n"
    code += "    sys.exit(command.main(['fake', '--workers', '1', '--results', folder], experiments=experiments))\n"
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TQDM_DISABLE": "1"}
    options = {"env": environment, "start_new_session": True, "stderr": subprocess.PIPE, "text": True}
    child = subprocess.Popen([sys.executable, script, tmp_path], **options)
    try:
        while not (store := list(tmp_path.glob("*.partial.jsonl"))) or (
            when == "a run sleeps" and (runs.called(tmp_path) != [0, 1] or not store[0].read_text())
        ):
            assert child.poll() is None
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGINT)
        errors = child.communicate(timeout=60)[1]
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    kept = len(store[0].read_text().splitlines())
    assert (child.returncode, errors) == (130, f"Stopped. {kept} runs are kept; run it again to go on.\n")
    assert kept == 1 or when == "the processes begin"
    assert not (tmp_path / "fake.json").exists()


def test_an_experiment_runs_in_processes_of_its_own(tmp_path, capsys):
    experiment = fake(tmp_path, run=runs.threads)
    experiment.configurations = lambda seeds, quick: [{"x": x} for x in range(seeds)]
    assert command.main(["fake", "--quick", "--seeds", "2", "--workers", "1"], tmp_path, {"fake": experiment}) == 0
    rows = read(tmp_path / "fake-quick.json")["rows"]
    assert [row["threads"] for row in rows] == [1, 1]
    assert os.getpid() not in {row["process"] for row in rows}


@pytest.mark.parametrize("options, seeds", [("", 17), ("--seeds 11", 11), ("--quick", 5), ("--quick --seeds 2", 2)])
def test_an_experiment_gets_the_seeds_that_it_or_the_command_asks_for(main, tmp_path, options, seeds):
    asked = []
    experiment = fake(tmp_path, run=runs.square)
    experiment.SEEDS = 17
    experiment.configurations = lambda seeds, quick: asked.append(seeds) or []
    assert main("fake", *options.split(), fake=experiment) == 0
    assert asked == [seeds]


@pytest.mark.parametrize("name", command.EXPERIMENTS)
def test_every_experiment_has_a_committed_result(name):
    assert command.RESULTS / f"{name}.json" in COMMITTED


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_committed_result_is_that_of_its_experiment(path, tmp_path):
    result = read(path)
    assert result["experiment"] == path.stem
    experiment = command.EXPERIMENTS[path.stem]
    assert result["settings"] == json.loads(json.dumps(experiment.SETTINGS))
    python, *options = shlex.split(result["made_by"])
    assert (python, options[:2]) == ("python", ["-m", "attn_core.lab"])
    asked = {}
    stub = types.SimpleNamespace(
        __doc__=experiment.__doc__,
        SETTINGS={},
        configurations=lambda seeds, quick: asked.update(seeds=seeds, quick=quick) or [],
        run=None,
    )
    assert command.main(options[2:], tmp_path, {path.stem: stub}) == 0  # the command parses
    again = read(tmp_path / path.name)
    assert asked["seeds"] >= getattr(experiment, "SEEDS", command.FEWEST_SEEDS) and not asked["quick"]
    assert again["workers"] == result["workers"] >= 1
    assert again["question"] == result["question"]
    assert result["seconds"] > 0 and result["seconds_of_runs"] > 0
    assert all(result[name].count(".") >= 1 for name in versions())
    configurations = json.loads(json.dumps(experiment.configurations(asked["seeds"])))
    found = [{setting: row[setting] for setting in configurations[0]} for row in result["rows"]]
    assert [one for one, before in zip(found, [None, *found], strict=False) if one != before] == configurations
    assert all(row.items() >= {name: result[name] for name in versions()}.items() for row in result["rows"])
