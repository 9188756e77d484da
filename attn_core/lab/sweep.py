"""Sweeps: one run for each of many settings, on all cores or on a cluster, without losing what is done."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm.auto import tqdm

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
    run: a function of a module (processes must be able to import it) that returns its measures, or a list of them.
    executor: any `concurrent.futures.Executor`, such as `dask.distributed.Client(...).get_executor()`; a pool of
    processes unless given. workers: the size of that pool, all cores unless given.
    store: a file that keeps every finished run, a line of JSON each. A sweep that finds some of its runs there, made
    with the same versions, does not repeat them.

    A row holds the settings, the measures, the seconds of its run and the versions; rows stand in the order of the
    configurations. A run that raises becomes a failure and the others go on.
    Raises ValueError where two configurations are alike.
    """
    configurations = [dict(configuration) for configuration in configurations]
    keys = [_key(configuration) for configuration in configurations]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"each configuration must be there once, got twice {twice}")
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers must be a positive integer, got {workers!r}")
    done = {key: rows for key, rows in _stored(store).items() if key in set(keys)}
    waiting = [c for c, key in zip(configurations, keys, strict=True) if key not in done]
    failures: list[Row] = []
    if waiting:
        # "spawn" is the one way that all systems have, and the one that torch's threads survive.
        size = min(workers or os.cpu_count() or 1, len(waiting))
        pool = executor or ProcessPoolExecutor(size, mp_context=get_context("spawn"))
        try:
            futures = {pool.submit(_run_one, run, configuration): configuration for configuration in waiting}
            for future in tqdm(as_completed(futures), total=len(keys), initial=len(done), desc="runs", leave=False):
                _collect(future, futures[future], done, failures, store)
        finally:
            if executor is None:
                pool.shutdown(wait=False, cancel_futures=True)
    failures.sort(key=lambda failure: keys.index(_key(failure["configuration"])))
    return SweepResult([row for key in keys for row in done.get(key, [])], failures)


def versions() -> Row:
    """What a result depends on besides its settings; builds such as CPU or CUDA are not told apart."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "attn_core": version("attn-core"),
    }


def _run_one(run: Callable, configuration: Row) -> list[Row]:
    """In the worker: one run on one thread, with its time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        start = time.perf_counter()
        measured = run(**configuration)
        seconds = round(time.perf_counter() - start, 2)
    finally:
        torch.set_num_threads(threads)
    measured = [measured] if isinstance(measured, dict) else measured
    return [configuration | measures | {"seconds": seconds} | versions() for measures in measured]


def _collect(future: Future, configuration: Row, done: dict, failures: list[Row], store: str | Path | None) -> None:
    try:
        rows = future.result()
    except Exception as error:  # whatever a run raised, or a worker that died
        failures.append({"configuration": configuration, "error": f"{type(error).__name__}: {error}"})
        return
    done[_key(configuration)] = rows
    if store is not None:
        with open(store, "a", encoding="utf-8") as file:
            file.write(json.dumps({"configuration": configuration, "rows": rows}, ensure_ascii=False) + "\n")


def _stored(store: str | Path | None) -> dict[str, list[Row]]:
    """The finished runs of a store by their key. What was written half, or with other versions, is left out."""
    if store is None or not Path(store).exists():
        return {}
    found = {}
    text = Path(store).read_text(encoding="utf-8")
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if all(row.items() >= versions().items() for row in entry["rows"]):
            found[_key(entry["configuration"])] = entry["rows"]
    if text and not text.endswith("\n"):
        with open(store, "a", encoding="utf-8") as file:
            file.write("\n")  # so that the next run does not continue the half line
    return found


def _key(configuration: Row) -> str:
    return json.dumps(configuration, sort_keys=True, ensure_ascii=False)
