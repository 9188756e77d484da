"""The nearest item: a task that needs distances."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_core._checks import check_integers
from attn_core.lab.tasks import NOTHING, Batch


@dataclass(frozen=True)
class NearestItem:
    """Name, at each gap, the item that stands nearest to it: `. b . . . a . .` -> b at the first three, a at the rest.

    It needs distances: who knows only which items there are has to guess one of them. Direction does not matter, so
    that a code without a left and a right can solve it. Gaps with two different items at the same distance ask nothing.

    num_kinds: how many kinds of items there are. density: the share of places that hold an item, in longer inputs too.
    """

    num_kinds: int = 8
    density: float = 0.2

    def __post_init__(self):
        check_integers(2, num_kinds=self.num_kinds)
        if not 0 < self.density < 1:
            raise ValueError(f"density must lie between 0 and 1, got {self.density!r}")

    @property
    def vocabulary_size(self) -> int:
        return self.num_kinds + 1  # 0 is the gap

    def sample(self, batch_size: int, generator: torch.Generator, length: int = 32) -> Batch:
        """tokens (B, L), 0 for a gap and 1 to num_kinds for an item; targets (B, L), the kind from 0 or NOTHING."""
        check_integers(batch_size=batch_size)
        check_integers(2, length=length)  # an item and a gap
        kinds = torch.randint(1, self.num_kinds + 1, (batch_size, length), generator=generator)
        is_item = torch.rand(batch_size, length, generator=generator) < self.density
        # At least one item in each sample, or there would be nothing to name.
        is_item.scatter_(1, torch.randint(length, (batch_size, 1), generator=generator), True)
        tokens = kinds * is_item
        return Batch((tokens,), self.answers(tokens))

    def answers(self, tokens: Tensor) -> Tensor:
        """The targets (B, L) of tokens (B, L)."""
        place, last = torch.arange(tokens.size(1)), tokens.size(1) - 1
        far = 2 * tokens.size(1)
        is_item = tokens > 0
        left = torch.where(is_item, place, -far).cummax(1).values  # the last item up to here
        right = torch.where(is_item, place, far).flip(1).cummin(1).values.flip(1)  # the first one from here on
        on_the_left, on_the_right = tokens.gather(1, left.clamp(min=0)), tokens.gather(1, right.clamp(max=last))
        nearest = torch.where(place - left <= right - place, on_the_left, on_the_right)
        two_answers = (place - left == right - place) & (on_the_left != on_the_right)
        return (nearest - 1).masked_fill(is_item | two_answers, NOTHING)

    def chance(self, length: int, samples: int = 1000) -> float:
        """The share of right answers when one names the most frequent item of the input at every gap: no positions."""
        (tokens,), targets = self.sample(samples, torch.Generator().manual_seed(0), length)
        counts = torch.nn.functional.one_hot(tokens, self.vocabulary_size)[..., 1:].sum(1)  # (B, kinds)
        asked = targets != NOTHING
        return (counts.argmax(-1, keepdim=True) == targets)[asked].double().mean().item()
