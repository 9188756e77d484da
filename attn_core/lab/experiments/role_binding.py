"""How many heads, and how long a training, does one query need to bring each of eight roles its own word?

Each length of training is a training of its own: the rate falls to zero at its end, so that the first thousand steps of
a longer one are something else.
"""

import math
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor, nn

from attn_core._checks import check_integers
from attn_core.lab.intervals import Estimate, median_estimate
from attn_core.lab.tasks import Batch
from attn_core.lab.training import accuracy, train
from attn_core.multihead import MultiHeadAttention

ROLES = ("time", "place", "person", "object", "manner", "reason", "tool", "amount")
SETTINGS = {
    "task": {"num_words": 16, "length": 16},
    "d_model": 32,
    "heads": [None, 1, 2, 4, 8, 16, 32],
    "steps": [250, 500, 1000, 2000, 4000, 8000],
    "batch_size": 128,
    "learning_rate": 1e-2,
    "length_factors": [1, 2, 4, 8],
    "test_samples": 2048,
}
SEEDS = 20


@dataclass(frozen=True)
class RoleBinding:
    """Words at random places; eight of them carry a role each, the rest carry none. Name the word of each role.

    Any word can have any role, so that knowing which words are there does not answer.
    num_words: the size of the vocabulary. length: words in an input, at least one per role.
    """

    num_words: int = 16
    length: int = 16

    def __post_init__(self):
        check_integers(2, num_words=self.num_words)
        check_integers(len(ROLES), length=self.length)  # a word for each role

    def sample(self, batch_size: int, generator: torch.Generator, length: int | None = None) -> Batch:
        """words (B, L) from 0, roles (B, L) with 0 for none and 1 to 8; targets (B, 8), the word of each role."""
        length = self.length if length is None else length
        words = torch.randint(self.num_words, (batch_size, length), generator=generator)
        # Random numbers in order of size are random places, all different.
        places = torch.rand(batch_size, length, generator=generator).argsort(1)[:, : len(ROLES)]
        roles = torch.zeros_like(words).scatter_(1, places, torch.arange(1, len(ROLES) + 1).expand(batch_size, -1))
        return Batch((words, roles), words.gather(1, places))


class RoleReader(nn.Module):
    """One trained query attends once to all words; from what it brings, a linear map names the word of each role.

    num_heads: None switches attention off: every word gets the same weight.
    """

    def __init__(self, num_words: int, d_model: int, num_heads: int | None):
        super().__init__()
        self.words, self.roles = nn.Embedding(num_words, d_model), nn.Embedding(len(ROLES) + 1, d_model)
        self.query = nn.Parameter(torch.randn(1, 1, d_model))
        # Without attention the layer keeps its projections, so that the number of parameters stays the same.
        self.attention = MultiHeadAttention(d_model, num_heads or 1)
        self.even = num_heads is None
        self.answer = nn.Linear(d_model, len(ROLES) * num_words)

    def forward(self, words: Tensor, roles: Tensor) -> Tensor:
        """words, roles (B, L) -> logits (B, 8, num_words)."""
        brought = self.brought(words, roles).values[:, 0]
        return self.answer(brought).unflatten(-1, (len(ROLES), -1))

    def brought(self, words: Tensor, roles: Tensor, need_weights: bool = False):
        """What the query brings: values (B, 1, d_model) and, where asked for, weights (B, H, 1, L)."""
        x = self.words(words) + self.roles(roles)
        query = self.query.expand(len(x), 1, -1)
        if self.even:
            x = x.mean(1, keepdim=True)  # one key: its weight is 1, whatever the query
        return self.attention(query, x, need_weights=need_weights)


def configurations(seeds: int = SEEDS, quick: bool = False) -> list[dict]:
    """One for each number of heads, None for the control without attention, length of training and seed, the longest
    first. quick: only the shortest."""
    lengths = sorted(SETTINGS["steps"], reverse=True)
    return [
        {"heads": heads, "steps": steps, "seed": seed}
        for steps in (lengths[-1:] if quick else lengths)
        for seed in range(seeds)
        for heads in SETTINGS["heads"]
    ]


def run(heads: int | None, steps: int, seed: int) -> list[dict]:
    """One model, trained and tested: a row per length of the test inputs, in multiples of the training length.

    focus: see there; at the length of the training only.
    """
    model = trained_model(heads, steps, seed)
    task = RoleBinding(**SETTINGS["task"])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    rows = []
    for factor in SETTINGS["length_factors"]:
        generator = torch.Generator().manual_seed(1_000_000 + seed)  # far from the seeds of the training
        batch = task.sample(SETTINGS["test_samples"], generator, factor * task.length)
        row = {"length_factor": factor, "accuracy": round(accuracy(model, batch), 4), "chance": 1 / task.num_words}
        focused = round(focus(model, batch), 4) if heads is not None and factor == 1 else None
        rows.append(row | {"focus": focused, "parameters": parameters})
    return rows


def steps_until(table: pd.DataFrame, share: float = 0.99) -> dict[int, Estimate]:
    """For each number of heads, the shortest training that ends with this share of right words, at the training length.

    table: the rows of a result. Each seed has its own shortest, infinite where no length that was tried is enough;
    given are their median and its interval, so that both are lengths that were tried, or infinite.
    """
    rows = table[(table["length_factor"] == 1) & table["heads"].notna()]
    reached = rows["steps"].where(rows["accuracy"] >= share, math.inf)
    shortest = reached.groupby([rows["heads"].astype(int), rows["seed"]]).min()
    return {heads: median_estimate(of_seeds) for heads, of_seeds in shortest.groupby(level=0)}


def focus(model: RoleReader, batch: Batch) -> float:
    """How far each role has a head of its own: the weight its strongest head puts on its word, mean over the roles.

    1 where for each role some head looks at its word alone; at most H/8 with H heads. It tells how heads share out the
    roles, and nothing about how many answers are right: one head can be right with an eighth for each.
    """
    words, roles = batch.inputs
    with torch.no_grad():
        weights = model.brought(words, roles, need_weights=True).weights[:, :, 0]  # (B, H, L)
    wanted = torch.stack([roles == role for role in range(1, len(ROLES) + 1)], dim=1).to(weights)  # (B, 8, L)
    by_head = torch.einsum("bhl,brl->hr", weights, wanted) / len(weights)
    return by_head.amax(0).mean().item()


def trained_model(heads: int | None, steps: int, seed: int) -> RoleReader:
    """A model after its training. The global random state stays as it was."""
    task = RoleBinding(**SETTINGS["task"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = RoleReader(task.num_words, SETTINGS["d_model"], heads)
    batch_size, learning_rate = SETTINGS["batch_size"], SETTINGS["learning_rate"]
    train(
        model,
        lambda g: task.sample(batch_size, g),
        steps=steps,
        seed=seed,
        learning_rate=learning_rate,
        label=heads_text(heads),
    )
    return model


def heads_text(heads: int | None) -> str:
    """What a number of heads is called in texts; None is the control without attention."""
    return "no attention" if heads is None else "1 head" if heads == 1 else f"{heads} heads"
