"""How much memory does attention need at its peak as the input grows: with the weights kept, fused, and in blocks?

Each measurement has a process of its own, since memory that was freed before could be used again unseen. Read from
Linux, which alone can forget an earlier peak.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from attn_core.attention import scaled_dot_product_attention
from attn_core.blockwise import blockwise_attention
from attn_core.lab.sweep import processes

SETTINGS = {
    "paths": ["weights kept", "fused", "in blocks"],
    "lengths": [1024, 2048, 4096, 8192, 16384],
    "head_dim": 64,
    "block_size": 256,
}
SEEDS = 20


def configurations(seeds: int = SEEDS, quick: bool = False) -> list[dict]:
    """One for each path, length and seed. quick: only the first two lengths."""
    lengths = SETTINGS["lengths"][:2] if quick else SETTINGS["lengths"]
    return [
        {"path": path, "length": length, "seed": seed}
        for seed in range(seeds)
        for length in lengths
        for path in SETTINGS["paths"]
    ]


def run(path: str, length: int, seed: int) -> dict:
    """One forward pass: the megabytes (10^6 bytes) it adds at its peak, and those of the length x length weights."""
    with processes(1) as pool:
        megabytes = pool.submit(peak_of_attention, path, length, seed).result()
    return {"megabytes": round(megabytes, 1), "megabytes_of_weights": round(4 * length**2 / 1e6, 1)}


def peak_of_attention(path: str, length: int, seed: int) -> float:
    """Megabytes that a forward pass adds in this process. Raises ValueError for an unknown path."""
    if path not in SETTINGS["paths"]:
        raise ValueError(f"path must be one of {', '.join(SETTINGS['paths'])}, got {path!r}")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, 1, length, SETTINGS["head_dim"], generator=generator)

    def attend(q, k, v):
        if path == "in blocks":
            return blockwise_attention(q, k, v, block_size=SETTINGS["block_size"])
        return scaled_dot_product_attention(q, k, v, need_weights=path == "weights kept")

    with torch.no_grad():
        attend(*(x[..., :16, :] for x in (q, k, v)))  # what the first call loads does not count
        return peak_megabytes(lambda: attend(q, k, v))


def peak_megabytes(call: Callable[[], object]) -> float:
    """Megabytes (10^6 bytes) of memory that a call adds at its peak. Raises RuntimeError elsewhere than on Linux."""
    if not sys.platform.startswith("linux"):
        raise RuntimeError(f"peak memory is read from Linux, and this is {sys.platform}")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far, which was the import of torch
    before = _resident_peak()
    call()
    return (_resident_peak() - before) * 1024 / 1e6


def _resident_peak() -> int:
    """In units of 1024 bytes."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
