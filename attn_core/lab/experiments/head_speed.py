"""How much longer does a layer with eight heads take than one with one head, although both multiply as much?

Both take turns in one process, and their order alternates, so that a slow moment of the machine strikes both.
"""

import statistics
import time
from collections.abc import Callable

import torch

from attn_core.multihead import MultiHeadAttention

SETTINGS = {
    # explicit: the weights are computed and kept. fused: torch's kernel, which keeps none.
    "paths": ["explicit", "fused"],
    "length": 1024,
    "embed_dim": 512,
    "batch_size": 2,
    "heads": [1, 8],
    "pairs": 12,
}
SEEDS = 20
WORKERS = 1  # another process would compete for memory


def configurations(seeds: int = SEEDS, quick: bool = False) -> list[dict]:
    """One for each path and seed. quick: a sixth of the pairs."""
    pairs = 2 if quick else SETTINGS["pairs"]
    return [{"path": path, "pairs": pairs, "seed": seed} for seed in range(seeds) for path in SETTINGS["paths"]]


def run(path: str, pairs: int, seed: int) -> list[dict]:
    """One path, timed: a row for the forward pass alone and one for forward and backward.

    ratio: the median over the pairs of the time of eight heads over that of one. milliseconds: the median of each.
    """
    one, eight = SETTINGS["heads"]
    rows = []
    for part in ("forward", "forward and backward"):
        calls = [layer_call(heads, path, part, seed) for heads in (one, eight)]
        times = paired_times(*calls, pairs)
        ratio = statistics.median(second / first for first, second in times)
        first, second = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
        milliseconds = {f"milliseconds_{one}": round(first, 2), f"milliseconds_{eight}": round(second, 2)}
        rows.append({"part": part, "ratio": round(ratio, 4), **milliseconds})
    return rows


def layer_call(heads: int, path: str, part: str, seed: int) -> Callable[[], object]:
    """What is timed: a function without arguments. Raises ValueError for a path that is not in SETTINGS["paths"]."""
    if path not in SETTINGS["paths"]:
        raise ValueError(f"path must be one of {', '.join(SETTINGS['paths'])}, got {path!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(SETTINGS["embed_dim"], heads)
        x = torch.randn(SETTINGS["batch_size"], SETTINGS["length"], SETTINGS["embed_dim"])

    def forward():
        with torch.no_grad():
            layer(x, need_weights=path == "explicit")

    def forward_and_backward():
        layer.zero_grad()
        layer(x, need_weights=path == "explicit").values.sum().backward()

    return forward if part == "forward" else forward_and_backward


def paired_times(first: Callable, second: Callable, pairs: int) -> list[tuple[float, float]]:
    """Seconds of both, pair by pair, after two calls each that are not counted."""
    for call in (first, second) * 2:
        call()
    times = []
    for pair in range(pairs):
        seconds = {}
        for call in (first, second) if pair % 2 == 0 else (second, first):
            start = time.perf_counter()
            call()
            seconds[call] = time.perf_counter() - start
        times.append((seconds[first], seconds[second]))
    return times
