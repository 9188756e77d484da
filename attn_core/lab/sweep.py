"""Sweeps: one run for each of many settings, on all cores or on a cluster, without losing what is done."""

import json
import os
import pickle
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, RLock, Thread
from typing import NamedTuple
from uuid import uuid4

import torch
from tqdm import tqdm

from attn_core._checks import check_integers
from attn_core.lab.progress import progress

Row = dict[str, object]
# torch's random state belongs to the process: two runs at once in its threads would draw from one another's numbers.
_ONE_RUN = Lock()


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
    dicts of JSON values as well, or scalars of numpy and torch, and None rather than NaN.
    executor: any `concurrent.futures.Executor`, such as `dask.distributed.Client(...).get_executor()`; a pool of
    processes unless given. In a process of several threads the runs take turns. workers: the size of that pool, all
    cores unless given.
    store: a file that keeps every finished run, a line of JSON each. A sweep that finds some of its runs there, made
    by a function of the same name and with the same versions, does not repeat them.

    A row holds the settings, the measures, the seconds of its run and the versions; rows stand in the order of the
    configurations. A run that raises, returns something else, was made with other versions than this process has or
    takes its process down becomes a failure and the others go on; those that wait for a pool whose process died become
    failures too.
    Raises ValueError where two configurations are alike, one has a setting with the name of an added column, or the
    processes of the pool could not import the function.
    """
    configurations = [dict(configuration) for configuration in configurations]
    keys = [_key(configuration) for configuration in configurations]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"each configuration must be there once, got twice {twice}")
    if taken := {"seconds", *versions()} & set().union(*configurations):
        raise ValueError(f"a setting needs a name of its own, got {', '.join(sorted(taken))}")
    if workers is not None:
        check_integers(workers=workers)
    kept = stored(store)
    done = {key: kept[_name(run), key] for key in keys if (_name(run), key) in kept}
    waiting = [c for c, key in zip(configurations, keys, strict=True) if key not in done]
    failures: list[Row] = []
    if waiting:
        if executor is None:
            _check_importable(run)
        futures: dict[Future, Row] = {}
        sweep_id = uuid4().hex  # dask gives equal calls one answer, and would not try a failed run again
        pool = executor or processes(min(workers or os.cpu_count() or 1, len(waiting)))
        finished = False
        try:
            with _interrupt_later() if executor is None else nullcontext():
                for configuration in waiting:
                    futures[pool.submit(_run_one, run, configuration, sweep_id)] = configuration
            for future in progress(as_completed(futures), total=len(keys), initial=len(done), desc="runs"):
                _collect(future, run, futures[future], done, failures, store)
            finished = True
        finally:
            # What an interrupted sweep has not begun is called off; the others are done.
            if executor is None:
                pool.shutdown(wait=False, cancel_futures=True)
                if not finished:
                    pool.leash.close()
            else:
                for future in futures:
                    future.cancel()
    failures.sort(key=lambda failure: keys.index(_key(failure["configuration"])))
    return SweepResult([row for key in keys for row in done.get(key, [])], failures)


def versions() -> Row:
    """What a result depends on besides its settings; builds such as CPU or CUDA are not told apart."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "attn_core": version("attn-core"),
    }


def _check_importable(run: Callable) -> None:
    """Raise ValueError where processes could not import a function: all they get is its name."""
    try:
        pickled = pickle.dumps(run)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"run must be a function at the top of a module, got {_name(run)}: {error}") from error
    if b"\x08__main__" not in pickled:  # in a pickle a short text stands behind its length
        return
    # A process imports a script or the module of `python -m` again, but no package, no notebook and no prompt.
    main = sys.modules["__main__"]
    if module := getattr(getattr(main, "__spec__", None), "name", None):
        again = not module.endswith("__main__")
    else:
        file = Path(getattr(main, "__file__", None) or "nowhere")
        again = file.stem != "ipython" and file.is_file()
    if not again:
        raise ValueError(f"run must be a function of a module that processes can import, got {_name(run)}")


def processes(size: int) -> ProcessPoolExecutor:
    """So many fresh processes, which end with this one however it ends. Ctrl-C ends them at once."""
    # "spawn" is the one way that all systems have, and the one that torch's threads survive.
    context = get_context("spawn")
    held_here, held_there = context.Pipe()
    pool = ProcessPoolExecutor(size, mp_context=context, initializer=_begin_worker, initargs=(held_there,))
    pool.leash = held_here  # whose end, or that of this process, is the end of the workers
    return pool


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Keep Ctrl-C waiting, here and in the processes that are started, which would print where their imports stand."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(leash: Connection) -> None:
    # Ctrl-C reaches the workers as well, and has to end them: or each would go on with the next run, and the
    # interpreter would wait for it. A worker that is only just being started it does not reach, and what ends the
    # process of the sweep in another way reaches none: so each also holds an end of a pipe.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    tqdm.set_lock(RLock())  # its own is one of the system, and Python complains where an ended process leaves it
    Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Connection) -> None:
    with suppress(EOFError, OSError):
        leash.recv()  # nothing is ever sent
    os._exit(1)


def _run_one(run: Callable, configuration: Row, sweep_id: str) -> list[Row] | str:
    """In the worker: one run on one thread. Its rows, or what went wrong: not every exception survives the way back."""
    with _ONE_RUN:
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
    # There and back, so that rows are the same whether they come from a run or from a store.
    plain = [{name: _plain(name, value) for name, value in one.items()} for one in measured]
    return json.loads(json.dumps([configuration | one | added for one in plain], allow_nan=False))


def _plain(name: str, value: object) -> object:
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_scalar))
    except (TypeError, ValueError, RuntimeError) as error:  # the last from tensors without numbers, such as meta ones
        shown = f"{value!r:.80}"
        raise TypeError(f"the measure {name} must be a JSON value, and None rather than NaN, got {shown}") from error


def _scalar(value: object) -> object:
    """The number in a scalar of numpy or torch; json calls this for what it does not know."""
    if getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(f"{value!r} is no scalar")


def _collect(
    future: Future, run: Callable, configuration: Row, done: dict, failures: list[Row], store: str | Path | None
) -> None:
    try:
        rows = future.result()
        if not isinstance(rows, str):
            rows = other_versions(rows[0]) or rows
    except CancelledError:
        rows = "CancelledError: the executor has lost this run, as a cluster does whose scheduler ends"
    except Exception as error:  # a worker that died, or one that cannot import the function
        rows = f"{type(error).__name__}: {error}"
    if isinstance(rows, str):
        failures.append({"configuration": configuration, "error": rows})
        return
    done[_key(configuration)] = rows
    if store is not None:
        entry = {"run": _name(run), "configuration": configuration, "rows": rows}
        # ASCII: wherever it is cut, it can be read. Unbuffered: two sweeps of one store would mix up parts of lines.
        with open(store, "ab", buffering=0) as file:
            file.write(f"{json.dumps(entry)}\n".encode("ascii"))


def other_versions(row: Row) -> str:
    """A sentence where a row of another machine has other versions than this process; empty where it has the same."""
    theirs = [f"{name} {row.get(name)} and not {here}" for name, here in versions().items() if row.get(name) != here]
    return f"the worker must have the versions of the sweep, and has {', '.join(theirs)}" if theirs else ""


def stored(store: str | Path | None) -> dict[tuple[str, str], list[Row]]:
    """The rows of the finished runs of a store, by the name of the function and the key of the configuration.

    What was written half, or with other versions, is left out.
    """
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
                found[entry["run"], _key(entry["configuration"])] = entry["rows"]
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # a damaged line: its run is done again
    if text and not text.endswith("\n"):
        with open(store, "a", encoding="utf-8") as file:
            file.write("\n")  # so that the next run does not continue the half line
    return found


def clear(store: str | Path, configurations: Iterable[Row], run: Callable) -> None:
    """Remove a store whose finished runs are all among these."""
    if stored(store).keys() <= {(_name(run), _key(configuration)) for configuration in configurations}:
        Path(store).unlink(missing_ok=True)  # another sweep of the same may have been faster


def _key(configuration: Row) -> str:
    return json.dumps(configuration, sort_keys=True, ensure_ascii=False)


def _name(run: Callable) -> str:
    """The module and the name of a function, and what a partial adds to it."""
    if isinstance(run, partial):
        return f"{_name(run.func)} with {run.args} {run.keywords}"
    return f"{run.__module__}.{run.__qualname__}" if hasattr(run, "__qualname__") else repr(run)
