"""Runs for the tests of sweeps: functions of a module, since the processes of a sweep have to import them."""

import os
import sys
import time
from pathlib import Path

import numpy as np
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


def identified(x, folder):
    return {"square": x * x, "process": os.getpid()}


def cube(x, folder):
    note(folder, x)
    return {"cube": x**3}


def to_the(x, folder, power):
    note(folder, x)
    return {"result": x**power}


def draws(seed):
    """Two numbers, with time between them for others to draw."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first = torch.rand(1).item()
        time.sleep(0.05)
        return {"drawn": [first, torch.rand(1).item()]}


def hangs_once_at_three(x, folder):
    """The first process that is asked for three leaves its number and waits to be killed."""
    again = x in called(folder)
    note(folder, x)
    if x == 3 and not again:
        (Path(folder) / "hanging").write_text(str(os.getpid()))
        time.sleep(600)
    return {"square": x * x, **draws(x)}


def waits_for_another(x, seed, folder):
    """The first run ends after another."""
    while (x, seed) == (0, 1) and not called(folder):
        time.sleep(0.01)
    note(folder, x)
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
        "a tensor": {"loss": torch.ones(2)},
        "a set": {"kinds": {1}},
        "nan": {"loss": float("nan")},
        "nan of numpy": {"loss": np.float32("nan")},
        "a tensor without numbers": {"loss": torch.tensor(1.0, device="meta")},
        "a complex number": {"z": np.complex128(1)},
        "scalars": {
            "n": np.int64(3),
            "share": np.float32(0.5),
            "sure": np.bool_(True),
            "many": torch.tensor(7),
            "loss": torch.tensor(1.5, requires_grad=True),
            "half": torch.tensor(0.25, dtype=torch.bfloat16),
            "inside": [np.int8(1), {"m": torch.tensor(2)}],
        },
        "a setting": {"what": 1},
        "the seconds": {"seconds": 1},
        "tuples": {"pair": (1, 2)},
    }[what]
