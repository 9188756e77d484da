"""The explorer of costs: where the FLOPs and the memory of an attention layer go."""

import ipywidgets as widgets

from attn_core.flops import attention_cost
from attn_core.show.explorers.base import Choice, Explorer, Shown, Stored, number_slider
from attn_core.show.panels import bar_panel
from attn_core.show.texts import Caption, number

LENGTHS = tuple(2**i for i in range(4, 21))
DIMENSIONS = tuple(2**i for i in range(6, 15))
HEAD_COUNTS = tuple(2**i for i in range(8))

PARTS = {
    "qkv_projection": "Q, K, V projections ∝ n",
    "scores": "scores QKᵀ ∝ n²",
    "weighted_sum": "weights × V ∝ n²",
    "output_projection": "output projection ∝ n",
}
CAPTION = (
    "Length {seq_len:,}, dimension {embed_dim:,}, {num_heads} {num_heads:head|heads} of width {head_dim:,}, "
    "{num_kv_heads} {num_kv_heads:kv head|kv heads}, {mask}: {flops:,} FLOPs forward, {parameters:,} parameters.\n"
    "Scores and weights × V take {product} of the FLOPs. They cost as much as the projections at length "
    "{crossing:,}, and more at any greater length."
)
HIDDEN_PAIRS = (
    "\nOnly the pairs that the mask leaves are multiplied; the weights of the others take memory all the same."
)


def cost_steps(seq_len: int, embed_dim: int, num_heads: int, num_kv_heads: int, causal: bool) -> Shown:
    """What one layer costs on one sequence, forward: its FLOPs by part and its memory in float32,
    each as bars.

    causal: only the pairs that a causal mask leaves are counted. Raises ValueError as
    `attention_cost` does.
    """
    cost = attention_cost(seq_len, embed_dim, num_heads, num_kv_heads=num_kv_heads, causal=causal)
    flops, total = cost.flops, cost.total_flops
    memory = {"parameters": 4 * cost.parameters, "attention weights ∝ n²": cost.weight_bytes}
    panels = [
        bar_panel(
            [flops[part] for part in PARTS],
            Caption("FLOPs of n = {seq_len:,} tokens", seq_len=seq_len),
            PARTS.values(),
            [
                Caption("{flops:,} FLOPs, {share}", flops=flops[part], share=share_text(flops[part] / total))
                for part in PARTS
            ],
            "FLOPs",
        ),
        bar_panel(
            list(memory.values()),
            "Memory in float32, attention weights kept",
            memory,
            [
                Caption("{size}, {share}", size=byte_text(size), share=share_text(size / sum(memory.values())))
                for size in memory.values()
            ],
            "bytes",
        ),
    ]
    caption = Caption(
        CAPTION + HIDDEN_PAIRS if causal else CAPTION,
        seq_len=seq_len,
        embed_dim=embed_dim,
        num_heads=num_heads,
        head_dim=embed_dim // num_heads,
        num_kv_heads=num_kv_heads,
        mask="causal mask" if causal else "no mask",
        flops=total,
        parameters=cost.parameters,
        product=share_text((flops["scores"] + flops["weighted_sum"]) / total),
        crossing=crossing_length(embed_dim, num_heads, num_kv_heads, causal),
    )
    return panels, caption


def crossing_length(embed_dim: int, num_heads: int, num_kv_heads: int, causal: bool) -> int:
    """The length at which scores and weighted sum cost exactly as much as the projections; past it
    they cost more.
    """
    # With D = embed_dim and w = the width of all keys, 2 · pairs · D = 2 · n · (D + w) · D: each
    # query must see D + w keys on average. Without a mask it sees n, with a causal one (n + 1) / 2.
    keys = embed_dim + num_kv_heads * (embed_dim // num_heads)
    return 2 * keys - 1 if causal else keys


def byte_text(size: int) -> Caption:
    """A size in the decimal unit that suits it, and exactly: 33.55 MB (33,554,432 bytes)."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return Caption("{size:.2f} {unit} ({bytes:,} bytes)", size=size / factor, unit=unit, bytes=size)
    return Caption("{bytes:,} bytes", bytes=size)


def share_text(share: float) -> Caption:
    """A share of 1 in percent; what two decimals would make 0 or 100 is not called nothing or all."""
    if 0 < share < 0.0001:
        return Caption("less than 0.01%")
    if 0.9999 < share < 1:
        return Caption("more than 99.99%")
    return Caption("{percent:.2f}%", percent=100 * share)


def cost_explorer() -> Explorer:
    """Sliders for length, dimension, heads, kv heads and the mask; they start at the size that the
    document counts.
    """
    kv_heads = number_slider("kv heads", _divisors(8), 8)
    controls = {
        "seq_len": number_slider("sequence length", LENGTHS, 1024),
        "embed_dim": number_slider("dimension", DIMENSIONS, 512),
        "num_heads": number_slider("heads", HEAD_COUNTS, 8),
        "num_kv_heads": kv_heads,
        "causal": widgets.SelectionSlider(options=[("none", False), ("causal", True)], value=False, description="mask"),
    }

    def fit(embed_dim: int, num_heads: int, num_kv_heads: int, **_) -> dict[str, Choice]:
        # As many kv heads as heads stay so: else more heads would quietly become other heads that
        # share their keys.
        shared = num_kv_heads < kv_heads.options[-1][1]
        heads = _choice(_divisors(embed_dim), num_heads)
        return {"num_heads": heads, "num_kv_heads": _choice(_divisors(heads[1]), num_kv_heads if shared else heads[1])}

    def offline() -> Stored:
        counts = [(number(count, ","), count) for count in HEAD_COUNTS]
        # As many kv heads as heads stay so.
        return Stored({"num_heads": counts, "num_kv_heads": counts}, stays_full=("num_kv_heads",))

    return Explorer("costs", controls, cost_steps, fit, offline)


def _divisors(size: int) -> list[int]:
    return [count for count in HEAD_COUNTS if size % count == 0]


def _choice(numbers: list[int], wanted: int) -> Choice:
    """These numbers, and the greatest of them that is not above the wanted one."""
    return numbers, max(count for count in numbers if count <= wanted)
