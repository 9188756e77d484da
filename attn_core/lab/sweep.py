"""Sweeps: one run for each of many settings, on all cores or on a cluster, without losing what is done."""

import json
import os
import platform
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from uuid import uuid4

import torch

from attn_core.lab.progress import progress

Row = dict[str, object]


class SweepResult(NamedTuple):
    """rows: the tidy table, ready for `pandas.DataFrame`. failures: settings and what went wrong, one dict each."""

    rows: list[Row]
    failures: list[Row]


def sweep(
    configurations: Iterable[Row],
    run: Callable[..., Row | list[Row]],
    executor: Executor | None = None,
    *,
    workers: int | None = None,
    store: str | Path | None = None,
) -> SweepResult:
    """Call run(**configuration) for each configuration, several at a time; each uses one torch thread.

    configurations: dicts of JSON values, no two alike; the seed is one of them.
    run: a function of a module (processes must be able to import it) that returns its measures, or a list of them:
    dicts of JSON values as well, and None rather than NaN.
    executor: any `concurrent.futures.Executor`, such as `dask.distributed.Client(...).get_executor()`; a pool of
    processes unless given. workers: the size of that pool, all cores unless given.
    store: a file that keeps every finished run, a line of JSON each. A sweep that finds some of its runs there, made
    with the same versions, does not repeat them.

    A row holds the settings, the measures, the seconds of its run and the versions; rows stand in the order of the
    configurations. A run that raises, returns something else or takes its process down becomes a failure and the others
    go on; those that wait for a pool whose process died become failures too.
    Raises ValueError where two configurations are alike or one has a setting with the name of an added column.
    """
    configurations = [dict(configuration) for configuration in configurations]
    keys = [_key(configuration) for configuration in configurations]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"each configuration must be there once, got twice {twice}")
    if taken := {"seconds", *versions()} & set().union(*configurations):
        raise ValueError(f"a setting needs a name of its own, got {', '.join(sorted(taken))}")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers must be a positive integer, got {workers!r}")
    done = {key: rows for key, rows in _stored(store).items() if key in set(keys)}
    waiting = [c for c, key in zip(configurations, keys, strict=True) if key not in done]
    failures: list[Row] = []
    if waiting:
        futures: dict[Future, Row] = {}
        sweep_id = uuid4().hex  # dask gives equal calls one answer, and would not try a failed run again
        pool = executor or _processes(min(workers or os.cpu_count() or 1, len(waiting)))
        try:
            for configuration in waiting:
                futures[pool.submit(_run_one, run, configuration, sweep_id)] = configuration
            for future in progress(as_completed(futures), total=len(keys), initial=len(done), desc="runs"):
                _collect(future, futures[future], done, failures, store)
        finally:
            for future in futures:
                future.cancel()  # what an interrupted sweep has not begun; the others are done
            if executor is None:
                pool.shutdown(wait=False)
    failures.sort(key=lambda failure: keys.index(_key(failure["configuration"])))
    return SweepResult([row for key in keys for row in done.get(key, [])], failures)


def versions() -> Row:
    """What a result depends on besides its settings; builds such as CPU or CUDA are not told apart."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "attn_core": version("attn-core"),
    }


def _processes(size: int) -> ProcessPoolExecutor:
    # "spawn" is the one way that all systems have, and the one that torch's threads survive.
    return ProcessPoolExecutor(size, mp_context=get_context("spawn"), initializer=_begin_worker)


def _begin_worker() -> None:
    # Ctrl-C reaches the workers as well, and has to end them: or each would go on with the next run, and the
    # interpreter would wait for it. What ends the process of the sweep in another way does not reach them.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent_process().join()
    os._exit(1)


def _run_one(run: Callable, configuration: Row, sweep_id: str) -> list[Row] | str:
    """In the worker: one run on one thread. Its rows, or what went wrong: not every exception survives the way back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        start = time.perf_counter()
        measured = run(**configuration)
        return _rows(configuration, measured, {"seconds": round(time.perf_counter() - start, 2), **versions()})
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        torch.set_num_threads(threads)


def _rows(configuration: Row, measured: Row | list[Row], added: Row) -> list[Row]:
    measured = [measured] if isinstance(measured, dict) else measured
    if not isinstance(measured, list) or not measured or not all(isinstance(one, dict) for one in measured):
        raise TypeError(f"run must return a dict of measures, or a list of them, got {measured!r:.80}")
    if taken := set().union(*measured) & {*configuration, *added}:
        raise ValueError(f"a measure needs a name of its own, got {', '.join(sorted(taken))}")
    try:
        # There and back, so that rows are the same whether they come from a run or from a store.
        return json.loads(json.dumps([configuration | one | added for one in measured], allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"measures must be JSON values: {error}") from error


def _collect(future: Future, configuration: Row, done: dict, failures: list[Row], store: str | Path | None) -> None:
    try:
        rows = future.result()
    except Exception as error:  # a worker that died, or one that cannot import the function
        rows = f"{type(error).__name__}: {error}"
    if isinstance(rows, str):
        failures.append({"configuration": configuration, "error": rows})
        return
    done[_key(configuration)] = rows
    if store is not None:
        line = json.dumps({"configuration": configuration, "rows": rows})  # ASCII: wherever it is cut, it can be read
        with open(store, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def _stored(store: str | Path | None) -> dict[str, list[Row]]:
    """The finished runs of a store by their key. What was written half, or with other versions, is left out."""
    if store is None:
        return {}
    found = {}
    # For writing too, so that a store that cannot be written is known before the runs.
    with open(store, "a+", encoding="utf-8", errors="replace") as file:
        file.seek(0)
        text = file.read()
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            if entry["rows"] and all(row.items() >= versions().items() for row in entry["rows"]):
                found[_key(entry["configuration"])] = entry["rows"]
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # a damaged line: its run is done again
    if text and not text.endswith("\n"):
        with open(store, "a", encoding="utf-8") as file:
            file.write("\n")  # so that the next run does not continue the half line
    return found


def clear(store: str | Path, configurations: Iterable[Row]) -> None:
    """Remove a store whose finished runs are all among these."""
    if _stored(store).keys() <= {_key(configuration) for configuration in configurations}:
        Path(store).unlink()


def _key(configuration: Row) -> str:
    return json.dumps(configuration, sort_keys=True, ensure_ascii=False)
