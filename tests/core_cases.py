"""What the tests of one head and of several share."""

import shutil

import pytest
import torch
from hypothesis import settings

# The same examples in every run, and no time limit: the first call of a kernel is slow.
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=80, database=None)
DEVICES = [
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
    pytest.param("mps", marks=pytest.mark.skipif(not torch.backends.mps.is_available(), reason="no MPS device")),
]
COMPILER = next((name for name in ("c++", "g++", "clang++", "cl") if shutil.which(name)), None)
EVERY_TEST = [
    pytest.mark.usefixtures("same_numbers_in_every_run"),
    # torch's own: of torch.compile, and of torch.func.vmap over a fused kernel that it can only call in a loop.
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]


def close(got, expected, within=1e-10):
    torch.testing.assert_close(got, expected, atol=within, rtol=0)


def gradients(values, wanted):
    """Of a sum in which each number of the output has another weight."""
    upstream = torch.linspace(-1, 1, values.numel(), dtype=torch.float64).view(values.shape).to(values.dtype)
    # An input that no query sees has no part in the formula: its gradient is zero all the same.
    return torch.autograd.grad(values, wanted, upstream, materialize_grads=True)


def assert_same_gradients(got, expected, wanted, theirs=None, within=1e-10):
    """Of two outputs, with respect to the same inputs, or of the second with respect to others."""
    ours, others = gradients(got, wanted), gradients(expected, wanted if theirs is None else theirs)
    for our, other in zip(ours, others, strict=True):
        close(our, other, within)
