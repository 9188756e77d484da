"""Sweeps: in order, on one thread each, and nothing that is done gets lost, whatever happens to the rest."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

import pandas as pd
import pytest
import torch
from runs import (
    both_signs,
    called,
    cube,
    dies_at_three,
    draws,
    exits_at_two,
    fails_at_two,
    interrupted_at_three,
    returns,
    square,
    threads,
    to_the,
    waits_for_another,
)

from attn_core.lab import sweep as module
from attn_core.lab.sweep import clear, sweep, versions


@pytest.fixture(scope="module")
def processes():
    """Two workers that would use two threads each if nobody told them."""
    with pytest.MonkeyPatch.context() as patch, ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        patch.setenv("OMP_NUM_THREADS", "2")
        list(pool.map(time.sleep, [0.1, 0.1]))
        yield pool


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def one_at_a_time():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def numbered(folder, count=6):
    return [{"x": x, "folder": str(folder)} for x in range(count)]


def squares(result):
    return [row["square"] for row in result.rows]


def test_rows_stand_in_the_order_of_the_configurations_whatever_finishes_first(processes, tmp_path):
    configurations = [{"x": x, "seed": seed, "folder": str(tmp_path)} for x in (0, 1) for seed in (1, 0)]
    result = sweep(configurations, waits_for_another, processes)
    assert [{name: row[name] for name in ("x", "seed", "folder")} for row in result.rows] == configurations
    assert result.failures == []
    finished = [row["finished"] for row in result.rows]
    assert finished != sorted(finished)


def test_each_process_uses_one_torch_thread(processes):
    rows = sweep([{"x": x} for x in range(4)], threads, processes).rows
    assert {row["threads"] for row in rows} == {1}
    assert len({row["process"] for row in rows}) == 2


def test_runs_in_threads_of_one_process_draw_the_numbers_that_they_draw_alone(pool, one_at_a_time):
    # torch's random state is that of the process.
    configurations = [{"seed": seed} for seed in range(4)]
    drawn = [[row["drawn"] for row in sweep(configurations, draws, way).rows] for way in (one_at_a_time, pool)]
    assert drawn[0] == drawn[1]


def test_a_run_in_a_thread_has_one_torch_thread_and_everyone_keeps_their_own(one_at_a_time):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rows = sweep([{"x": x} for x in range(2)], threads, one_at_a_time).rows
        assert {row["threads"] for row in rows} == {1}
        assert torch.get_num_threads() == one_at_a_time.submit(torch.get_num_threads).result() == 2
    finally:
        torch.set_num_threads(before)


def test_a_row_holds_settings_measures_seconds_and_versions(pool):
    (row,) = sweep([{"x": 3, "seed": 7}], square, pool).rows
    assert 0 <= row.pop("seconds") < 5
    assert row == {"x": 3, "seed": 7, "square": 9, **versions()}
    assert row["torch"] == torch.__version__.split("+")[0]
    assert row["python"] == ".".join(map(str, sys.version_info[:3]))


def test_a_run_may_return_several_rows(pool):
    table = pd.DataFrame(sweep([{"x": 1}, {"x": 2}], both_signs, pool).rows)
    assert table[["x", "sign", "value"]].to_numpy().tolist() == [[1, 1, 1], [1, -1, -1], [2, 1, 2], [2, -1, -2]]


def test_configurations_may_come_from_a_generator_and_stay_as_they_are(pool):
    configuration = {"x": 2}
    assert squares(sweep((c for c in (configuration, {"x": 3})), square, pool)) == [4, 9]
    assert configuration == {"x": 2}
    assert sweep([], square) == ([], [])


def test_two_equal_configurations_are_refused_before_anything_runs(pool, tmp_path):
    twice = [*numbered(tmp_path, 2), {"folder": str(tmp_path), "x": 1}]
    with pytest.raises(ValueError, match=r'each configuration must be there once, got twice .*"x": 1'):
        sweep(twice, square, pool)
    assert called(tmp_path) == []


@pytest.mark.parametrize("workers", [0, -1])
def test_a_wrong_number_of_workers_is_refused(workers):
    with pytest.raises(ValueError, match=f"workers must be at least 1, got {workers}"):
        sweep([{"x": 1}], square, workers=workers)


def test_a_failing_run_is_reported_with_its_settings_and_the_others_are_kept(processes):
    # Its exception could not be read at the other end of the pipe, which would take the whole pool down.
    result = sweep([{"x": x} for x in range(5)], fails_at_two, processes)
    assert squares(result) == [0, 1, 9, 16]
    assert result.failures == [{"configuration": {"x": 2}, "error": "TwoArguments: one and two"}]


def test_a_run_that_leaves_python_is_a_failure_too(pool):
    result = sweep([{"x": x} for x in range(4)], exits_at_two, pool)
    assert squares(result) == [0, 1, 9]
    assert [failure["error"] for failure in result.failures] == ["SystemExit: no"]


@pytest.mark.parametrize("name", ["seconds", "torch"])
def test_a_setting_named_like_an_added_column_is_refused_before_anything_runs(pool, tmp_path, name):
    with pytest.raises(ValueError, match=f"a setting needs a name of its own, got {name}"):
        sweep([{"x": 1, "folder": str(tmp_path), name: 1}], square, pool)
    assert called(tmp_path) == []


def test_failures_stand_in_the_order_of_the_configurations(pool):
    result = sweep([{"y": 3}, {"x": 1}, {"y": 1}, {"y": 2}], square, pool)
    assert [failure["configuration"] for failure in result.failures] == [{"y": 3}, {"y": 1}, {"y": 2}]


@pytest.mark.parametrize(
    "what, sentence",
    [
        ("nothing", "run must return a dict of measures, or a list of them, got None"),
        ("a number", "run must return a dict of measures, or a list of them, got 1.5"),
        ("an empty list", r"run must return a dict of measures, or a list of them, got \[\]"),
        ("a tensor", r"the measure loss must be a JSON value, and None rather than NaN, got tensor\(\[1., 1.\]\)"),
        ("a set", "the measure kinds must be a JSON value, and None rather than NaN, got {1}"),
        ("nan", "the measure loss must be a JSON value, and None rather than NaN, got nan"),
        ("nan of numpy", "the measure loss must be a JSON value, and None rather than NaN, got np.float32"),
        ("a tensor without numbers", "the measure loss must be a JSON value, and None rather than NaN, got tensor"),
        ("a complex number", "the measure z must be a JSON value, and None rather than NaN, got np.complex128"),
        ("a setting", "a measure needs a name of its own, got what"),
        ("the seconds", "a measure needs a name of its own, got seconds"),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_a_result_that_is_no_table_of_json_values_is_one_failure_in_a_sentence(pool, tmp_path, what, sentence, stored):
    store = tmp_path / "store" if stored else None
    result = sweep([{"what": what}, {"what": "tuples"}], returns, pool, store=store)
    (failure,) = result.failures
    assert failure["configuration"] == {"what": what}
    assert re.search(sentence, failure["error"])
    assert [row["pair"] for row in result.rows] == [[1, 2]]


def test_scalars_of_numpy_and_torch_are_measures(pool, tmp_path):
    expected = {"n": 3, "share": 0.5, "sure": True, "many": 7, "loss": 1.5, "half": 0.25, "inside": [1, {"m": 2}]}
    for store in (None, tmp_path / "store", tmp_path / "store"):
        (row,) = sweep([{"what": "scalars"}], returns, pool, store=store).rows
        found = {name: row[name] for name in expected}
        assert found == expected
        assert [type(value) for value in found.values()] == [int, float, bool, int, float, float, list]


def test_rows_from_a_store_are_those_of_the_run(pool, tmp_path):
    configurations = [{"what": "tuples"}]
    first = sweep(configurations, returns, pool, store=tmp_path / "store")
    assert sweep(configurations, returns, pool, store=tmp_path / "store") == first
    assert first.rows[0]["pair"] == [1, 2]


def test_a_sweep_does_not_repeat_what_its_store_holds(pool, tmp_path):
    store = tmp_path / "store"
    assert squares(sweep(numbered(tmp_path, 3), square, pool, store=store)) == [0, 1, 4]
    assert squares(sweep(numbered(tmp_path, 5)[::-1], square, pool, store=str(store))) == [16, 9, 4, 1, 0]
    assert called(tmp_path) == [0, 1, 2, 3, 4]
    # Nor does it hand out what it was not asked for.
    assert squares(sweep(numbered(tmp_path, 2), square, pool, store=store)) == [0, 1]


def test_a_store_tells_the_rows_of_one_function_from_those_of_another(pool, tmp_path):
    store = tmp_path / "store"
    assert squares(sweep(numbered(tmp_path, 2), square, pool, store=store)) == [0, 1]
    assert [row["cube"] for row in sweep(numbered(tmp_path, 2), cube, pool, store=store).rows] == [0, 1]
    for power in (4, 5, 4):
        rows = sweep(numbered(tmp_path, 3), partial(to_the, power=power), pool, store=store).rows
        assert [row["result"] for row in rows] == [0, 1, 2**power]
    assert squares(sweep(numbered(tmp_path, 2), square, pool, store=store)) == [0, 1]
    assert called(tmp_path) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    clear(store, numbered(tmp_path, 3), square)
    assert store.exists()


def test_a_failed_run_is_tried_again_and_the_others_are_not(pool, tmp_path):
    store = tmp_path / "store"
    assert len(sweep(numbered(tmp_path, 4), fails_at_two, pool, store=store).failures) == 1
    (tmp_path / "mended").touch()
    assert squares(sweep(numbered(tmp_path, 4), fails_at_two, pool, store=store)) == [0, 1, 4, 9]
    assert called(tmp_path) == [0, 1, 2, 2, 3]


def test_an_interrupted_sweep_goes_on_from_its_store(one_at_a_time, tmp_path):
    store = tmp_path / "store"
    with pytest.raises(KeyboardInterrupt):
        sweep(numbered(tmp_path, 20), interrupted_at_three, one_at_a_time, store=store)
    one_at_a_time.submit(int).result()  # stands behind all that has not been called off
    before = called(tmp_path)
    assert before[:4] == [0, 1, 2, 3] and len(before) < 20
    (tmp_path / "mended").touch()
    assert squares(sweep(numbered(tmp_path, 6), interrupted_at_three, one_at_a_time, store=store))[:4] == [0, 1, 4, 9]
    assert [called(tmp_path).count(x) for x in range(4)] == [1, 1, 1, 2]


def test_an_executor_that_breaks_down_while_it_is_fed_leaves_the_store_usable(pool, tmp_path):
    class BreaksDown(Executor):
        fed = 0

        def submit(self, *arguments):
            self.fed += 1
            if self.fed == 3:
                raise RuntimeError("out of order")
            return pool.submit(*arguments)

    store = tmp_path / "store"
    sweep(numbered(tmp_path, 2), square, pool, store=store)
    with pytest.raises(RuntimeError, match="out of order"):
        sweep(numbered(tmp_path, 6), square, BreaksDown(), store=store)
    assert squares(sweep(numbered(tmp_path, 6), square, pool, store=store)) == [0, 1, 4, 9, 16, 25]
    assert [called(tmp_path).count(x) for x in (0, 1)] == [1, 1]


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_half_written_line_costs_one_run_at_most(pool, tmp_path, cut):
    store = tmp_path / "store"
    configurations = [{"x": x, "folder": str(tmp_path), "seed": "猫\u2028"} for x in range(3)]
    sweep(configurations, square, pool, store=store)
    store.write_bytes(store.read_bytes()[:-cut])
    for _ in range(2):
        assert squares(sweep(configurations, square, pool, store=store)) == [0, 1, 4]
        assert len(called(tmp_path)) == (3 if cut == 1 else 4)  # the last line was whole but for its end


@pytest.mark.parametrize(
    "line",
    [
        *(b"null", b"{}", b"5", b"\xff"),
        b'{"run": "runs.square", "configuration": {"x": 0}, "rows": []}',
        b'{"run": "runs.square", "configuration": 1, "rows": [2]}',
        b'{"run": [], "configuration": {"x": 0}, "rows": [%s]}' % json.dumps(versions()).encode(),
        b'{"configuration": {"x": 0}, "rows": [%s]}' % json.dumps(versions()).encode(),
    ],
)
def test_a_damaged_line_of_a_store_is_passed_over(pool, tmp_path, line):
    store = tmp_path / "store"
    sweep(numbered(tmp_path, 2), square, pool, store=store)
    store.write_bytes(line.replace(b'{"x": 0}', json.dumps(numbered(tmp_path, 1)[0]).encode()) + b"\n")
    assert squares(sweep(numbered(tmp_path, 2), square, pool, store=store)) == [0, 1]


def test_a_store_is_cleared_unless_it_holds_other_runs(pool, tmp_path):
    store = tmp_path / "store"
    sweep(numbered(tmp_path, 3), square, pool, store=store)
    clear(store, numbered(tmp_path, 2), square)
    assert squares(sweep(numbered(tmp_path, 3), square, pool, store=store)) == [0, 1, 4]
    assert called(tmp_path) == [0, 1, 2]
    clear(store, numbered(tmp_path, 3), square)
    assert not store.exists()


def test_a_store_of_another_torch_is_not_used(pool, tmp_path, monkeypatch):
    store = tmp_path / "store"
    sweep(numbered(tmp_path, 2), square, pool, store=store)
    other = versions() | {"torch": "1.0.0"}
    monkeypatch.setattr(module, "versions", lambda: other)
    assert {row["torch"] for row in sweep(numbered(tmp_path, 2), square, pool, store=store).rows} == {"1.0.0"}
    assert called(tmp_path) == [0, 0, 1, 1]


def test_a_store_in_a_folder_that_is_not_there_is_known_before_anything_runs(pool, tmp_path):
    with pytest.raises(FileNotFoundError):
        sweep(numbered(tmp_path, 2), square, pool, store=tmp_path / "nowhere" / "store")
    assert called(tmp_path) == []


def test_rows_of_a_worker_with_other_versions_are_a_failure(pool, tmp_path):
    class OfAnotherTorch(Executor):
        def submit(self, run_one, *arguments):
            return pool.submit(lambda: [row | {"torch": "1.0.0"} for row in run_one(*arguments)])

    store = tmp_path / "store"
    result = sweep([{"x": 1}], square, OfAnotherTorch(), store=store)
    sentence = f"the worker must have the versions of the sweep, and has torch 1.0.0 and not {versions()['torch']}"
    assert result == ([], [{"configuration": {"x": 1}, "error": sentence}])
    assert store.read_text() == ""


def test_a_run_that_its_executor_loses_is_a_failure_with_a_sentence():
    class Loses(Executor):
        def submit(self, *arguments):
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    (failure,) = sweep([{"x": 1}], square, Loses()).failures
    assert failure["error"].startswith("CancelledError: the executor has lost this run, as a cluster does ")


def test_an_executor_of_the_caller_is_not_shut_down(pool):
    sweep([{"x": 1}, {"y": 1}], square, pool)
    assert pool.submit(int).result() == 0


def test_a_worker_that_dies_is_reported_and_what_was_finished_is_kept(tmp_path):
    result = sweep(numbered(tmp_path, 4), dies_at_three, workers=1, store=tmp_path / "store")
    assert squares(result) == [0, 1, 4]
    (failure,) = result.failures
    assert failure["configuration"]["x"] == 3
    assert failure["error"].startswith("BrokenProcessPool: ")
    assert len((tmp_path / "store").read_text().splitlines()) == 3


def run_python(folder, *arguments, text=""):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TQDM_DISABLE": "1"}
    options = {"capture_output": True, "text": True, "env": environment, "cwd": folder}
    return subprocess.run([sys.executable, *arguments], input=text, **options)


SCRIPT = """
import concurrent.futures, functools
from attn_core.lab.sweep import sweep

def double(x):
    return {"double": 2 * x}

if __name__ == "__main__":
    for run in (double, functools.partial(double), lambda x: {}):
        try:
            print(sweep([{"x": 4}], run, workers=1, store="store").rows[0]["double"])
        except ValueError as error:
            print(error)
"""


def test_a_function_that_processes_cannot_import_is_refused_in_a_sentence_before_anything_starts(tmp_path):
    done = run_python(tmp_path, "-", text=SCRIPT)  # as from a notebook: there is no file to import
    name, nothing_added, nameless = done.stdout.splitlines()
    assert name == "run must be a function of a module that processes can import, got __main__.double"
    assert nothing_added == name + " with () {}"
    assert nameless.startswith("run must be a function at the top of a module, got __main__.<lambda>: ")
    assert done.stderr == ""


def test_a_function_of_a_script_is_one_that_processes_can_import(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    assert run_python(tmp_path, "script.py").stdout.splitlines()[:2] == ["8", "8"]


def test_a_function_that_no_process_can_import_may_run_in_threads(tmp_path):
    text = SCRIPT.replace("workers=1", "concurrent.futures.ThreadPoolExecutor(1)")
    assert run_python(tmp_path, "-", text=text).stdout.splitlines()[:2] == ["8", "8"]


def test_a_worker_that_ctrl_c_does_not_reach_ends_with_the_sweep():
    # One that is only just being started when the others are told.
    pool = module.processes(1)
    future = pool.submit(time.sleep, 600)
    pool.leash.close()
    with pytest.raises(BrokenProcessPool):
        future.result(timeout=60)


@pytest.mark.skipif(os.name == "nt", reason="a group of processes gets Ctrl-C in another way there")
@pytest.mark.parametrize("end, number", [("killpg", "SIGINT"), ("kill", "SIGTERM"), ("kill", "SIGKILL")])
def test_what_ends_a_sweep_ends_its_workers_and_keeps_what_is_stored(tmp_path, end, number):
    code = "import signal, sys; from runs import *; from attn_core.lab.sweep import sweep\n"
    # A shell may have started the tests in the background, and then Ctrl-C is ignored unless one asks for it.
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "if __name__ == '__main__':\n    folder = sys.argv[1]\n"
    code += "    runs = [{'x': x, 'folder': folder} for x in range(4)]\n"
    code += "    sweep(runs, sleeps_after_the_first, workers=1, store=folder + '/store')\n"
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TQDM_DISABLE": "1"}
    child = subprocess.Popen([sys.executable, script, tmp_path], env=environment, start_new_session=True)
    try:
        while called(tmp_path) != [0, 1] or not (tmp_path / "store").read_text():
            assert child.poll() is None
            time.sleep(0.05)
        getattr(os, end)(child.pid, signal.Signals[number])  # Ctrl-C goes to all, the others to the sweep alone
        assert child.wait(20) != 0
        patience = time.monotonic() + 20
        while group_lives(child.pid):
            assert time.monotonic() < patience
            time.sleep(0.05)
    finally:
        if group_lives(child.pid):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    assert called(tmp_path) == [0, 1]
    assert json.loads((tmp_path / "store").read_text())["configuration"]["x"] == 0


def group_lives(number):
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("in_processes", [False, True])
def test_a_dask_cluster_is_an_executor(tmp_path, in_processes):
    distributed = pytest.importorskip("distributed")
    # Nothing but this machine's own address, and any free port.
    local = {"host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=in_processes, **local) as cluster,
        distributed.Client(cluster) as client,
    ):
        pool = client.get_executor()
        result = sweep(numbered(tmp_path, 4), fails_at_two, pool, store=tmp_path / "store")
        assert squares(result) == [0, 1, 9]
        assert [failure["error"] for failure in result.failures] == ["TwoArguments: one and two"]
        # The cluster would remember the answer to an equal call, even that of a run that failed.
        (tmp_path / "mended").touch()
        assert squares(sweep(numbered(tmp_path, 4), fails_at_two, pool, store=tmp_path / "store")) == [0, 1, 4, 9]
        assert called(tmp_path) == [0, 1, 2, 2, 3]
        assert pool.submit(int).result() == 0
