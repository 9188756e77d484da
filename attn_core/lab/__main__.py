"""The experiments of the course: `python -m attn_core.lab --list`, then `python -m attn_core.lab NAME` or `--all`."""

import argparse
import json
import os
import sys
import time
import zlib
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile

from attn_core._files import replacing
from attn_core.lab.cluster import connect, size
from attn_core.lab.experiments import NAMES, OF_THIS_MACHINE
from attn_core.lab.sweep import clear, stored, sweep, versions

EXPERIMENTS = {name: import_module(f"attn_core.lab.experiments.{name}") for name in NAMES}
RESULTS = Path(__file__).parents[2] / "notebooks" / "results"
FEWEST_SEEDS, QUICK_SEEDS = 10, 5
STOPPED = 130  # what a shell expects of a command that ends by Ctrl-C


def main(arguments: list[str] | None = None, folder: Path = RESULTS, experiments: dict = EXPERIMENTS) -> int:
    """Run what the arguments ask for. Returns 0, 1 where a run failed or 130 after Ctrl-C.

    Exits with 2 and a sentence on misuse, and where the scheduler that is asked for cannot be used.
    """
    parser = argparse.ArgumentParser(prog="python -m attn_core.lab", description="Run an experiment of the course.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="the experiments to run")
    parser.add_argument("--list", action="store_true", help="list the experiments and what they ask")
    parser.add_argument("--all", action="store_true", help="run every experiment")
    parser.add_argument("--quick", action="store_true", help="a short version, written beside the committed result")
    parser.add_argument("--seeds", type=_positive, help="runs of each setting (default: as its result needs)")
    parser.add_argument("--workers", type=_positive, default=os.cpu_count(), help="processes (default: all cores)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a dask scheduler, whose workers do the runs instead")
    parser.add_argument(
        "--results", type=Path, default=folder, metavar="DIR", help="where results go (default: %(default)s)"
    )
    asked = parser.parse_args(arguments)
    if asked.list:
        for name, experiment in experiments.items():
            print(f"{name:16} {_question(experiment)}")
        return 0
    if bool(asked.names) == asked.all:
        parser.error("name experiments or ask for --all; --list shows them")
    names = list(experiments) if asked.all else asked.names
    if unknown := [name for name in names if name not in experiments]:
        parser.error(f"there is no experiment {', '.join(unknown)}; there are {', '.join(experiments)}")
    if asked.seeds is not None and asked.seeds < FEWEST_SEEDS and not asked.quick:
        parser.error(f"a result needs at least {FEWEST_SEEDS} seeds, got {asked.seeds}; add --quick to try things out")
    with ExitStack() as stack:
        client = None
        if asked.scheduler is not None:
            try:
                client = stack.enter_context(connect(asked.scheduler))
            except (ImportError, ConnectionError, RuntimeError) as error:
                parser.error(str(error))
        try:  # before the work and not after it
            asked.results.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=asked.results).close()
        except OSError as error:
            parser.error(f"results cannot be written into {asked.results}: {error.strerror}")
        codes = []
        for name in names:
            seeds = asked.seeds or (QUICK_SEEDS if asked.quick else getattr(experiments[name], "SEEDS", FEWEST_SEEDS))
            codes.append(_run(name, experiments[name], asked.quick, seeds, asked.workers, asked.results, client))
            if codes[-1] == STOPPED:
                break
    return max(codes)


def _run(name: str, experiment, quick: bool, seeds: int, workers: int, folder: Path, client) -> int:
    workers = getattr(experiment, "WORKERS", workers)
    cluster = {}
    if client is not None and (hasattr(experiment, "WORKERS") or name in OF_THIS_MACHINE):
        print(f"{name} measures the machine and runs on this one.")
    elif client is not None:
        cluster, workers = {"executor": client.get_executor()}, size(client)
    target = folder / f"{name}{'-quick' if quick else ''}.json"
    # Named by the settings, so that runs made with others are not taken for these.
    settings = zlib.crc32(json.dumps(experiment.SETTINGS, sort_keys=True).encode())
    store = folder / f"{target.stem}-{settings:08x}.partial.jsonl"
    start = time.perf_counter()
    configurations = experiment.configurations(seeds, quick)
    try:
        rows, failures = sweep(configurations, experiment.run, workers=workers, store=store, **cluster)
    except KeyboardInterrupt:
        print(f"Stopped. {len(stored(store))} runs are kept; run it again to go on.", file=sys.stderr)
        return STOPPED
    for failure in failures:
        print(f"failed: {json.dumps(failure['configuration'])}: {failure['error']}", file=sys.stderr)
    if failures:
        print(f"{len(failures)} runs of {name} failed. The others are kept: run it again to go on.", file=sys.stderr)
        return 1
    # A run may have several rows, each with its seconds.
    seconds = {json.dumps([row[setting] for setting in configurations[0]]): row["seconds"] for row in rows}
    result = {
        "experiment": name,
        "question": _question(experiment),
        # Without the scheduler: the workers of a cluster give the rows that as many processes give.
        "made_by": f"python -m attn_core.lab {name}{' --quick' if quick else ''} --seeds {seeds} --workers {workers}",
        "settings": experiment.SETTINGS,
        "workers": workers,
        "seconds": round(time.perf_counter() - start, 1),
        # The line above counts from the last start of an interrupted sweep; this one counts every run.
        "seconds_of_runs": round(sum(seconds.values()), 1),
        **versions(),
    }
    try:
        write_result(target, result, rows)
    except OSError as error:
        kept = f"The runs are kept in {store}: run it again when there is room."
        print(f"{target} cannot be written: {error.strerror}. {kept}", file=sys.stderr)
        return 1
    clear(store, configurations, experiment.run)
    print(f"{target.name}: {len(rows)} rows, {result['seconds']} s")
    return 0


def write_result(path: Path, head: dict, rows: list[dict]) -> None:
    """Write a result whole or not at all: JSON with one row a line, so that a change can be read."""
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    text = json.dumps(head, indent=1, ensure_ascii=False)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n'
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def _question(experiment) -> str:
    return " ".join(experiment.__doc__.split("\n\n")[0].split())


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
