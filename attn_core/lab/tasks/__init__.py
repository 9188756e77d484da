"""Tasks that sample their own data: the answers are exact, nothing is downloaded, and a seed gives the same data."""

from typing import NamedTuple

from torch import Tensor

NOTHING = -100  # the target where there is nothing to predict; torch's cross-entropy leaves it out


class Batch(NamedTuple):
    """What a model gets, `model(*batch.inputs)` -> logits (..., classes), and the classes it should answer (...)."""

    inputs: tuple[Tensor, ...]
    targets: Tensor
