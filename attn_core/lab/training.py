"""Training: one loop for every experiment."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_core._checks import check_integers
from attn_core.lab.progress import progress
from attn_core.lab.tasks import NOTHING, Batch


class History(NamedTuple):
    """What happened: the loss and the learning rate of every step."""

    losses: list[float]
    learning_rates: list[float]


def train(
    model: nn.Module,
    sample: Callable[[torch.Generator], Batch],
    *,
    steps: int,
    seed: int = 0,
    learning_rate: float = 3e-3,
    warmup: int = 100,
    label: str | None = None,
    watch: Callable[[int], None] | None = None,
) -> History:
    """Train the model in place with AdamW on fresh batches, and show a progress bar.

    sample: gives a batch when called with the generator, which starts from the seed; usually
    `lambda generator: task.sample(64, generator)`. The model should be made after `torch.manual_seed(seed)`.
    learning_rate: its highest value; it rises over the first warmup steps and falls to zero along a half cosine. So a
    training of 1000 steps is another one than the first 1000 of 8000: a training is judged at its end.
    label: what stands before the bar. Set TQDM_DISABLE=1 for no bar at all.
    watch: called after each step with the number of steps done.
    Raises FloatingPointError as soon as the loss is no finite number, ValueError for steps below 1.
    """
    check_integers(steps=steps)
    generator = torch.Generator().manual_seed(seed)
    # fused: one call for all parameters, with the results of PyTorch's default; `make bench` times both.
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _share_of_rate(step, steps, warmup))
    history = History([], [])
    model.train()
    with progress(range(steps), desc=label, mininterval=0.5) as bar:
        for step in bar:
            batch = sample(generator)
            loss = cross_entropy(model(*batch.inputs), batch.targets)
            if not math.isfinite(loss.item()):
                raise FloatingPointError(
                    f"the loss became {loss.item()} at step {step} with learning_rate {learning_rate}; "
                    "a lower learning_rate or a longer warmup usually helps"
                )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            history.losses.append(loss.item())
            history.learning_rates.append(schedule.get_last_lr()[0])
            schedule.step()
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
            if watch is not None:
                watch(step + 1)
    return history


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all that is asked, in nats. logits (..., classes), targets (...) with NOTHING left out."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=NOTHING)


def accuracy(model: nn.Module, batch: Batch) -> float:
    """The share of right answers among all that is asked, in evaluation mode; the model's own mode comes back."""
    training = model.training
    model.eval()
    with torch.no_grad():
        # A part at a time: long inputs need memory for all their weights.
        parts = zip(*(x.split(128) for x in batch.inputs), strict=True)
        answers = torch.cat([model(*part).argmax(-1) for part in parts])
    model.train(training)
    asked = batch.targets != NOTHING
    return (answers == batch.targets)[asked].double().mean().item()


def _share_of_rate(step: int, steps: int, warmup: int) -> float:
    # The cosine reaches zero one step after the last, so that the last step still learns something.
    return min(1.0, (step + 1) / max(warmup, 1)) * 0.5 * (1 + math.cos(math.pi * step / steps))
