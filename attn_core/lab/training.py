"""Training: one loop for every experiment, for a given number of steps or until it no longer helps."""

import math
from collections.abc import Callable, Iterator
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
    optimizer = _optimizer(model, learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _share_of_rate(step, steps, warmup))
    history = History([], [])
    for step, loss in _steps(model, sample, optimizer, steps, seed, label):
        history.losses.append(loss)
        history.learning_rates.append(schedule.get_last_lr()[0])
        schedule.step()
        if watch is not None:
            watch(step)
    return history


class Check(NamedTuple):
    """What a check during `train_to_plateau` found: after how many steps, at which rate, and the loss on other data."""

    steps: int
    learning_rate: float
    loss: float


class Plateau(NamedTuple):
    """checks: one after another. reached: whether training ended by the rule, and not by the most steps allowed."""

    checks: list[Check]
    reached: bool


def train_to_plateau(
    model: nn.Module,
    sample: Callable[[torch.Generator], Batch],
    validate: Callable[[int], float],
    *,
    most_steps: int,
    check_every: int,
    patience: int = 2,
    cuts: int = 2,
    seed: int = 0,
    learning_rate: float = 3e-3,
    warmup: int = 100,
    label: str | None = None,
) -> Plateau:
    """Train as `train` does, but for as long as it helps: until the loss on other data falls no further.

    The rule: after the warmup, every check_every steps `validate`, called with the number of steps done, gives that
    loss. Where it has not fallen by a hundredth of itself below the least so far for more than `patience` checks in a
    row, the rate is divided by four, and after so many cuts the next such time ends the training.
    """
    check_integers(most_steps=most_steps)
    optimizer = _optimizer(model, learning_rate)
    (group,) = optimizer.param_groups
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=patience, threshold=0.01)
    checks = []
    group["lr"] = learning_rate / max(warmup, 1)
    for step, _ in _steps(model, sample, optimizer, most_steps, seed, label):
        if step < warmup:
            group["lr"] = learning_rate * (step + 1) / warmup
        if step >= warmup and step % check_every == 0:
            checks.append(Check(step, group["lr"], validate(step)))
            schedule.step(checks[-1].loss)
            if group["lr"] < learning_rate * 0.25**cuts:
                return Plateau(checks, reached=True)
    return Plateau(checks, reached=False)


def _optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    # fused: one call for all parameters, with the results of PyTorch's default; `make bench` times both.
    return torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01, fused=True)


def _steps(
    model: nn.Module,
    sample: Callable[[torch.Generator], Batch],
    optimizer: torch.optim.Optimizer,
    steps: int,
    seed: int,
    label: str | None,
) -> Iterator[tuple[int, float]]:
    """Take the steps of a training, and after each give the number of steps done and the loss."""
    generator = torch.Generator().manual_seed(seed)
    model.train()
    with progress(range(1, steps + 1), desc=label, mininterval=0.5) as bar:
        for step in bar:
            batch = sample(generator)
            loss = cross_entropy(model(*batch.inputs), batch.targets)
            value = loss.item()
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"the loss became {value} at step {step - 1} with learning_rate {optimizer.defaults['lr']}; "
                    "a lower learning_rate or a longer warmup usually helps"
                )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            bar.set_postfix(loss=f"{value:.3f}", refresh=False)
            yield step, value


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
