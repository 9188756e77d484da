"""Time MultiHeadAttention against torch.nn.MultiheadAttention, in pairs, and measure peak memory: `make bench`.

Both layers hold the same weights and take turns in one process, so that a slow moment of the machine strikes both.
The order within a pair alternates. Printed and written: the median of the ratios ours/torch; below 1 ours is faster.
In the rows "causal=True" the other layer is `CausalLayer`, since torch's own has no faster way to say it.
"""

import json
import platform
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from attn_core import MultiHeadAttention, causal_mask, merge_heads, padding_mask
from attn_core._files import replacing
from attn_core.lab.experiments.peak_memory import peak_megabytes

SHAPES = [(1, 12, 64, 8), (8, 128, 256, 8), (2, 1024, 512, 8), (2, 1024, 512, 1)]
MASKS = ["none", "causal", "padding", "causal=True"]
SECONDS_PER_CASE = 6
RESULT = Path(__file__).parents[1] / "build" / "bench.json"


def paired_ratios(ours, theirs, seconds):
    """Time the two calls in turn for about so many seconds: (median ratio, pairs, median milliseconds of each)."""
    times = {ours: [], theirs: []}
    for call in (ours, theirs, ours, theirs):
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[ours]) < 11:
        order = (ours, theirs) if len(times[ours]) % 2 else (theirs, ours)
        for call in order:
            start = time.perf_counter()
            call()
            times[call].append(time.perf_counter() - start)
    ratios = [a / b for a, b in zip(times[ours], times[theirs], strict=True)]
    milliseconds = {name: 1e3 * statistics.median(times[call]) for name, call in (("ours", ours), ("torch", theirs))}
    return statistics.median(ratios), len(ratios), milliseconds


class CausalLayer(nn.Module):
    """Self-attention as it is often written for speed: the kernel itself is told that it is causal. No weights."""

    def __init__(self, layer):
        super().__init__()
        self.num_heads, self.weight, self.bias = layer.num_heads, layer.in_proj_weight, layer.in_proj_bias
        self.out_proj = layer.out_proj

    def forward(self, x):
        heads = F.linear(x, self.weight, self.bias).unflatten(-1, (3, self.num_heads, -1))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        return (self.out_proj(merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True))),)


def layer_calls(shape, mode, with_weights, mask):
    """The two calls to compare, on the same weights and input."""
    batch, length, embed_dim, num_heads = shape
    theirs = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True).train(mode == "train")
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.randn(batch, length, embed_dim, requires_grad=mode == "train")
    our_options = {"query": x, "need_weights": with_weights}
    their_options = dict(query=x, key=x, value=x, need_weights=with_weights, average_attn_weights=False)
    if mask == "causal":
        our_options["mask"] = causal_mask(length)
        their_options["attn_mask"] = ~causal_mask(length)  # in torch's layer True = blocked
    elif mask == "padding":  # every second sample is a quarter shorter
        padding = padding_mask([length - length // 4 * (sample % 2) for sample in range(batch)], length)
        our_options["mask"], their_options["key_padding_mask"] = padding, ~padding[:, 0, 0]
    elif mask == "causal=True":
        our_options["causal"] = True
        theirs, their_options = CausalLayer(theirs).train(mode == "train"), {"x": x}

    def run(layer, options):
        if mode == "eval":
            with torch.no_grad():
                return layer(**options)
        layer.zero_grad()
        x.grad = None
        layer(**options)[0].sum().backward()

    return lambda: run(ours, our_options), lambda: run(theirs, their_options)


def peak_memory(with_weights, length=4096, embed_dim=512, num_heads=8):
    """Megabytes that one forward pass adds at its peak, where the system tells them; else None."""
    if not sys.platform.startswith("linux"):
        return None
    layer, x = MultiHeadAttention(embed_dim, num_heads).eval(), torch.randn(1, length, embed_dim)
    with torch.no_grad():
        layer(x[:, :16], need_weights=with_weights)  # the first call loads libraries, which must not count
        return peak_megabytes(lambda: layer(x, need_weights=with_weights))


def main():
    torch.manual_seed(0)
    rows = []
    columns = ("(B, L, D, H)", 20), ("mode", 6), ("weights", 8), ("mask", 12)
    columns += ("ours/torch", 11), ("ours ms", 9), ("torch ms", 9)
    print(*(f"{name:>{width}}" for name, width in columns), " pairs")
    for shape, mode, with_weights, mask in product(SHAPES, ("train", "eval"), (True, False), MASKS):
        if mask == "causal=True" and with_weights:
            continue  # the fused kernel of CausalLayer gives no weights
        ratio, pairs, ms = paired_ratios(*layer_calls(shape, mode, with_weights, mask), SECONDS_PER_CASE)
        case = {"shape": shape, "mode": mode, "weights": with_weights, "mask": mask}
        rows.append(case | {"ratio": ratio, "pairs": pairs, "ms": ms})
        print(
            f"{str(shape):>20} {mode:>6} {'yes' if with_weights else 'no':>8} {mask:>12} {ratio:11.3f} "
            f"{ms['ours']:9.3f} {ms['torch']:9.3f} {pairs:6}",
            flush=True,
        )
    # Each in a fresh process: this one has freed memory that a forward pass could use unseen.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        memory = {name: pool.submit(peak_memory, name == "weights").result() for name in ("fused", "weights")}
    for name, megabytes in memory.items():
        if megabytes is not None:
            print(f"peak memory of one forward pass, B = 1, L = 4096, D = 512, H = 8, {name}: {megabytes:.0f} MB")
    write(
        {
            "ratios": rows,
            "peak_memory_mb": memory,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "platform": platform.platform(),
        }
    )


def write(result):
    """Write the result whole or not at all."""
    RESULT.parent.mkdir(exist_ok=True)
    with replacing(RESULT) as part:
        part.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written: {RESULT.relative_to(Path.cwd())}" if RESULT.is_relative_to(Path.cwd()) else f"written: {RESULT}")


if __name__ == "__main__":
    main()
