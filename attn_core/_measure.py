"""What runs while a module is measured: torch's counter of FLOPs, and the one of fvcore."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from attn_core._checks import check_callable, check_module


class FlopCount(NamedTuple):
    """What `count_flops` measured.

    by_operator: FLOPs of each of torch's operators.
    uncounted: names of those that ran, contain a product of matrices (or may: operators that are
        not torch's own) and have no formula. With any, `total_flops` may be too low.
    """

    by_operator: dict[str, int]
    uncounted: tuple[str, ...]

    @property
    def total_flops(self) -> int:
        return sum(self.by_operator.values())

    def __repr__(self) -> str:
        total = f"{self.total_flops:,} FLOPs"
        if not self.uncounted:
            return total
        return f"at least {total}, for {', '.join(self.uncounted)} could not be counted"


def count_flops(module: Callable, *args: object, **kwargs: object) -> FlopCount:
    """The FLOPs of `module(*args, **kwargs)`, by torch's counter while the module or function runs.

    No kernel hides a product: mode, heads, gradients and layouts do not change the number. The
    module, torch's random state and flags stay as they were, but for a buffer that was None. On the
    device "meta" nothing is computed, and sizes may be large. The first call takes seconds, for
    torch loads its compiler. Raises TypeError for what is not callable.
    """
    check_callable(module)
    # Imported only when it is needed: where Triton is missing, the import may warn.
    from torch.utils.flop_counter import FlopCounterMode

    # torch has a formula for a matrix times a matrix, none for a matrix or a vector times a vector.
    with_vector = lambda left, *_, **__: 2 * left.numel()  # noqa: E731
    formulas = {torch.ops.aten.mv: with_vector, torch.ops.aten.dot: with_vector}
    counter = FlopCounterMode(display=False, custom_mapping=formulas)
    # The counter must be innermost: it splits composite operators, and the watch sees the parts.
    with _without_fused_kernels(), _Watch(counter.flop_registry) as watch, counter:
        if isinstance(module, nn.Module):
            # A call may change buffers, as that of a batch norm does: it gets copies.
            copies = {name: buffer.clone() for name, buffer in module.named_buffers()}
            torch.func.functional_call(module, copies, args, kwargs)
        else:
            module(*args, **kwargs)
    counts = counter.get_flop_counts().get("Global", {})
    by_operator = {str(operator): flops for operator, flops in counts.items()}
    return FlopCount(by_operator, tuple(sorted(watch.names)))


@contextmanager
def _without_fused_kernels() -> Iterator[None]:
    """Fused attention on the CPU, torch's fast path and oneDNN's LSTM would each count as 0."""
    mha, mkldnn = torch.backends.mha, cast(Any, torch.backends.mkldnn)
    before = mha.get_fastpath_enabled(), mkldnn.enabled
    with torch.random.fork_rng(range(torch.cuda.device_count())), sdpa_kernel(SDPBackend.MATH):
        try:
            mha.set_fastpath_enabled(False)
            mkldnn.enabled = False
            yield
        finally:
            mha.set_fastpath_enabled(before[0])
            mkldnn.enabled = before[1]


_PRODUCT = re.compile(
    "mm|mv|dot|matmul|attention|transformer|linear|conv|rnn|lstm|gru"
    "|linalg|solve|cholesky|geqrf|ormqr|cdist|euclidean|fft"
)
# Names that match without a product inside: these operators scale, move or norm numbers. The cell
# of a recurrent layer (`_cell`) only joins its gates: their products run before it and are counted.
_NO_PRODUCT = re.compile("gamma|cumm|convert|upsample|norm|cross|check_errors|_cell")


class _Watch(TorchDispatchMode):
    """Collects the names of operators that multiply matrices, or may, and have no formula."""

    def __init__(self, formulas: dict):
        super().__init__()
        self.formulas, self.names = formulas, set[str]()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        operator, name = func._overloadpacket, str(func._overloadpacket)
        own = func.namespace in ("aten", "prim", "prims", "profiler")
        product = _PRODUCT.search(name) and not _NO_PRODUCT.search(name)
        if operator not in self.formulas and (product or not own):
            self.names.add(name)
        return func(*args, **(kwargs or {}))


def count_macs_with_fvcore(module: nn.Module, *args: object) -> tuple[int, dict[str, int]]:
    """What fvcore counts in `module(*args)`: MACs, and how often it met which operator it skips.

    It runs the module once, as any call does (buffers may change); torch's random state stays as it
    was. fvcore cannot trace what `torch.compile` returned: count the module that was compiled.
    Raises ImportError where fvcore is not installed, TypeError for what is no module.
    """
    check_module(module)
    with warnings.catch_warnings(), torch.random.fork_rng(range(torch.cuda.device_count())):
        # fvcore still calls this deprecated function when it is imported.
        warnings.filterwarnings("ignore", "`torch.jit.script", DeprecationWarning)
        try:
            from fvcore.nn import FlopCountAnalysis
        except ModuleNotFoundError as error:
            needs = f"count_macs_with_fvcore needs fvcore ({error})"
            raise ImportError(f"{needs}: pip install fvcore") from None
        analysis = FlopCountAnalysis(module, args).unsupported_ops_warnings(False)
        return analysis.uncalled_modules_warnings(False).total(), dict(analysis.unsupported_ops())
