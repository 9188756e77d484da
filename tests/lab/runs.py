"""Runs for the tests of sweeps: functions of a module, since the processes of a sweep have to import them."""

import os
import sys
import time
from pathlib import Path

import torch


def called(folder):
    """Which runs have been called so far, in this process or in another: each leaves a line."""
    path = Path(folder) / "called"
    return sorted(int(x) for x in path.read_text().split()) if path.exists() else []


def note(folder, x):
    with open(Path(folder) / "called", "a") as file:
        file.write(f"{x}\n")


def square(x, folder=None, seed=0):
    if folder is not None:
        note(folder, x)
    return {"square": x * x}


def first_ones_last(x, seed):
    time.sleep(0.4 if x == 0 else 0)
    return {"finished": time.time()}


def both_signs(x):
    return [{"sign": sign, "value": sign * x} for sign in (1, -1)]


def threads(x):
    time.sleep(0.3)  # so that both workers get some
    return {"threads": torch.get_num_threads(), "process": os.getpid()}


class TwoArguments(Exception):
    """Can be pickled and not unpickled, which breaks a pool of processes when it is sent back."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def fails_at_two(x, folder=None):
    """Mended by a file `mended` in the folder."""
    if folder is not None:
        note(folder, x)
    if x == 2 and not (folder and (Path(folder) / "mended").exists()):
        raise TwoArguments("one", "two")
    return {"square": x * x}


def exits_at_two(x, folder=None):
    return sys.exit("no") if x == 2 else {"square": x * x}


def interrupted_at_three(x, folder):
    """As by Ctrl-C, once the three runs before it are stored; mended by a file as well."""
    note(folder, x)
    if x == 3 and not (Path(folder) / "mended").exists():
        wait_for_lines(Path(folder) / "store", 3)
        raise KeyboardInterrupt
    time.sleep(0.05 if x > 3 else 0)
    return {"square": x * x}


def dies_at_three(x, folder):
    if x == 3:
        wait_for_lines(Path(folder) / "store", 3)
        os._exit(1)
    return {"square": x * x}


def wait_for_lines(path, lines):
    while not path.exists() or path.read_text().count("\n") < lines:
        time.sleep(0.01)


def sleeps_after_the_first(x, folder):
    note(folder, x)
    time.sleep(60 if x else 0)
    return {"square": x * x}


def returns(what):
    return {
        "nothing": None,
        "a number": 1.5,
        "an empty list": [],
        "a tensor": {"loss": torch.tensor(1.0)},
        "nan": {"loss": float("nan")},
        "a setting": {"what": 1},
        "the seconds": {"seconds": 1},
        "tuples": {"pair": (1, 2)},
    }[what]
