"""What attention costs: by formula, measured while a module runs, and as the optional package fvcore counts it.

All three count products of matrices, none element by element: 2 FLOPs or 1 MAC per multiply-and-add.

                                     attention_cost    count_flops            count_macs_with_fvcore
    projections, Q Kᵀ, weights × V   yes               yes                    where written out; fused: named, 0
    pairs hidden by a causal mask    no                yes (kernels vary)     yes
    a product without a formula      (has them all)    named in `uncounted`   named beside the number
    biases, scaling, mask, softmax   no                no                     no, some of them named too
    dropout, activations, copies     no                no                     no, some of them named too
    layer and batch norm             (has none)        no                     yes, with its own formula
    the backward pass                no                if the call runs it    no
"""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from attn_core.attention import check_sizes


class AttentionCost(NamedTuple):
    """The cost of one multi-head attention layer, forward only.

    macs: multiply-accumulates by part, "qkv_projection", "scores", "weighted_sum", "output_projection".
    parameters: numbers that are learned. softmax_elements: numbers that pass through the softmax.
    weight_bytes: bytes of the attention weights (B, H, L, S) in float32, 4 each, where they are kept
        (`need_weights=True`). A weight that a mask makes zero is stored like any other.
    """

    macs: dict[str, int]
    parameters: int
    softmax_elements: int
    weight_bytes: int

    @property
    def flops(self) -> dict[str, int]:
        """Floating-point operations by part: 2 per multiply-accumulate."""
        return {part: 2 * macs for part, macs in self.macs.items()}

    @property
    def total_macs(self) -> int:
        return sum(self.macs.values())

    @property
    def total_flops(self) -> int:
        return 2 * self.total_macs


def attention_cost(
    seq_len: int,
    embed_dim: int,
    num_heads: int,
    *,
    batch_size: int = 1,
    key_len: int | None = None,
    num_kv_heads: int | None = None,
    causal: bool | str = False,
    out_proj: bool = True,
    bias: bool = True,
) -> AttentionCost:
    """The cost of `MultiHeadAttention(embed_dim, num_heads, ...)` on (batch_size, seq_len, embed_dim), exactly.

    key_len: S, where keys and values are another sequence. causal: only the pairs that `causal_mask` leaves are
    counted, with its align "lower_right" (also True) or "upper_left"; a kernel that masks after multiplying does more.
    Raises ValueError for sizes that are not positive integers or do not divide one another and for another `causal`,
    TypeError for an out_proj or bias that is no bool.
    """
    key_len = seq_len if key_len is None else key_len
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    check_sizes(seq_len=seq_len, embed_dim=embed_dim, num_heads=num_heads)
    check_sizes(batch_size=batch_size, key_len=key_len, num_kv_heads=num_kv_heads)
    if not (isinstance(out_proj, bool) and isinstance(bias, bool)):
        raise TypeError(f"out_proj and bias must be True or False, got {out_proj!r} and {bias!r}")
    if embed_dim % num_heads or num_heads % num_kv_heads:
        raise ValueError(
            "num_heads must divide embed_dim and num_kv_heads must divide num_heads, got "
            f"embed_dim {embed_dim}, num_heads {num_heads}, num_kv_heads {num_kv_heads}"
        )
    kv_width = num_kv_heads * (embed_dim // num_heads)
    pairs = _visible_pairs(seq_len, key_len, causal)
    macs = {
        "qkv_projection": batch_size * (seq_len * embed_dim + 2 * key_len * kv_width) * embed_dim,
        "scores": batch_size * pairs * embed_dim,
        "weighted_sum": batch_size * pairs * embed_dim,
        "output_projection": batch_size * seq_len * embed_dim**2 if out_proj else 0,
    }
    rows = (2 if out_proj else 1) * embed_dim + 2 * kv_width
    heads = batch_size * num_heads
    return AttentionCost(macs, rows * (embed_dim + bias), heads * pairs, 4 * heads * seq_len * key_len)


def _visible_pairs(seq_len: int, key_len: int, causal: bool | str) -> int:
    """How many of the L · S pairs of query and key are computed."""
    if causal is False:
        return seq_len * key_len
    steps = min(seq_len, key_len)
    if causal is True or causal == "lower_right":
        # The last query sees all S keys, each one before it one fewer, until there are none left to see.
        return steps * key_len - steps * (steps - 1) // 2
    if causal == "upper_left":
        # The first query sees one key, each one after it one more, until they see all S.
        return steps * (steps + 1) // 2 + (seq_len - steps) * key_len
    raise ValueError(f'causal must be False, True, "lower_right" or "upper_left", got {causal!r}')


class FlopCount(NamedTuple):
    """What `count_flops` measured.

    by_operator: FLOPs of each of torch's operators. uncounted: names of those that ran, contain a product of matrices
    (or may: operators that are not torch's own) and have no formula. With any, `total_flops` may be too low.
    """

    by_operator: dict[str, int]
    uncounted: tuple[str, ...]

    @property
    def total_flops(self) -> int:
        return sum(self.by_operator.values())

    def __repr__(self) -> str:
        total = f"{self.total_flops:,} FLOPs"
        return f"at least {total}, for {', '.join(self.uncounted)} could not be counted" if self.uncounted else total


def count_flops(module: Callable, *args: object, **kwargs: object) -> FlopCount:
    """The FLOPs of `module(*args, **kwargs)`, measured by torch's counter while the module (or function) runs.

    No kernel hides a product: mode, heads, gradients and layouts do not change the number. The module, torch's random
    state and flags stay as they were, but for a buffer that was None. On the device "meta" nothing is computed, and
    sizes may be large. The first call takes seconds, for torch loads its compiler. TypeError for what is not callable.
    """
    if not callable(module):
        raise TypeError(f"module must be a torch.nn.Module or a function, got {type(module).__name__}")
    from torch.utils.flop_counter import FlopCounterMode  # not above: where Triton is missing, its import may warn

    # torch has a formula for a matrix times a matrix, none for a matrix or a vector times a vector.
    formulas = dict.fromkeys((torch.ops.aten.mv, torch.ops.aten.dot), lambda left, *_, **__: 2 * left.numel())
    counter = FlopCounterMode(display=False, custom_mapping=formulas)
    # The counter is entered last and splits composite operators: what comes out at the watch are single ones.
    with _without_fused_kernels(), _Watch(counter.flop_registry) as watch, counter:
        if isinstance(module, nn.Module):  # on copies of its buffers: it may change them
            copies = {name: buffer.clone() for name, buffer in module.named_buffers()}
            torch.func.functional_call(module, copies, args, kwargs)
        else:
            module(*args, **kwargs)
    counts = {str(operator): flops for operator, flops in counter.get_flop_counts().get("Global", {}).items()}
    return FlopCount(counts, tuple(sorted(watch.names)))


@contextmanager
def _without_fused_kernels() -> Iterator[None]:
    """Fused attention on the CPU, nn.MultiheadAttention's fast path and oneDNN's LSTM would each count as 0."""
    before = torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.enabled
    with torch.random.fork_rng(range(torch.cuda.device_count())), sdpa_kernel(SDPBackend.MATH):
        try:
            torch.backends.mha.set_fastpath_enabled(False)
            torch.backends.mkldnn.enabled = False
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(before[0])
            torch.backends.mkldnn.enabled = before[1]


_PRODUCT = re.compile(
    "mm|mv|dot|matmul|attention|transformer|linear|conv|rnn|lstm|gru|linalg|solve|cholesky|geqrf|ormqr|cdist|euclidean|fft"
)
# These match too, but weigh, move or norm numbers; the matrix products of a cell stand before it.
_NO_PRODUCT = re.compile("gamma|cumm|convert|upsample|norm|cross|check_errors|_cell")


class _Watch(TorchDispatchMode):
    """Collects the names of operators that multiply matrices, or may, and are not among those with a formula."""

    def __init__(self, formulas: dict):
        super().__init__()
        self.formulas, self.names = formulas, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        operator, name = func._overloadpacket, str(func._overloadpacket)
        own = func.namespace in ("aten", "prim", "prims", "profiler")
        product = _PRODUCT.search(name) and not _NO_PRODUCT.search(name)
        if operator not in self.formulas and (product or not own):
            self.names.add(name)
        return func(*args, **(kwargs or {}))


def count_macs_with_fvcore(module: nn.Module, *args: object) -> tuple[int, dict[str, int]]:
    """What fvcore counts in `module(*args)`: multiply-accumulates, and how often it met which operator it has to skip.

    It runs the module once, as any call does (buffers may change); torch's random state stays as it was.
    Raises ImportError where fvcore is not installed, TypeError for what is no module.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    with warnings.catch_warnings(), torch.random.fork_rng(range(torch.cuda.device_count())):
        warnings.filterwarnings("ignore", "`torch.jit.script", DeprecationWarning)  # fvcore uses it on import
        try:
            from fvcore.nn import FlopCountAnalysis
        except ModuleNotFoundError as error:
            raise ImportError(f"count_macs_with_fvcore needs fvcore ({error}): pip install fvcore") from None
        analysis = FlopCountAnalysis(module, args).unsupported_ops_warnings(False)
        return analysis.uncalled_modules_warnings(False).total(), dict(analysis.unsupported_ops())
