"""How strongly does the answer still depend on a token that stands many steps back, in a GRU and in attention?

The last token asks for the word that was marked, wherever it stood. Both models learn it. Measured is the gradient of
the right answer's logit at the embedding of the marked word: what training has to work with.

The number of steps that must wait for one another needs no measurement: a GRU has one per token, for each state is made
from the one before, and attention has one for all tokens together.
"""

import torch
from torch import Tensor, nn

from attn_core.lab.tasks import Batch
from attn_core.lab.training import train
from attn_core.multihead import MultiHeadAttention

SETTINGS = {
    "num_words": 8,
    "length": 64,  # words before the question: the largest distance
    "widths": {"gru": 32, "attention": 40},  # they make both about equal in parameters
    "steps": [0, 400, 1600],
    "batch_size": 64,
    "learning_rate": 5e-3,
    "test_samples": 64,
}
SEEDS = 20
PLAIN, MARKED, QUESTION = range(3)


class Recall(nn.Module):
    """Embedding, one GRU or one attention layer, and a linear answer from its last output.

    Raises ValueError for a kind that is not in SETTINGS["widths"].
    """

    def __init__(self, kind: str):
        super().__init__()
        if kind not in SETTINGS["widths"]:
            raise ValueError(f"kind must be one of {', '.join(SETTINGS['widths'])}, got {kind!r}")
        width, num_words = SETTINGS["widths"][kind], SETTINGS["num_words"]
        self.words, self.signs = nn.Embedding(num_words, width), nn.Embedding(3, width)
        if kind == "gru":
            self.layer = nn.GRU(width, width, bias=False, batch_first=True)
        else:
            self.layer = MultiHeadAttention(width, 1, bias=False)
        self.answer = nn.Linear(width, num_words)

    def forward(self, words: Tensor, signs: Tensor) -> Tensor:
        """words, signs (B, L) -> logits (B, num_words)."""
        return self.read(self.embed(words, signs))

    def embed(self, words: Tensor, signs: Tensor) -> Tensor:
        return self.words(words) + self.signs(signs)

    def read(self, x: Tensor) -> Tensor:
        """x (B, L, D), embedded -> logits (B, num_words)."""
        if isinstance(self.layer, nn.GRU):
            return self.answer(self.layer(x)[0][:, -1])
        return self.answer(self.layer(x[:, -1:], x).values[:, 0])  # the other outputs of the layer are not asked for


def sample(batch_size: int, generator: torch.Generator, distance: int | None = None) -> Batch:
    """words and signs (B, length + 1), the last is the question; targets (B,), the marked word.

    distance: how many steps before the question the marked word stands, from 1; drawn for each input unless given.
    """
    num_words, length = SETTINGS["num_words"], SETTINGS["length"]
    words = torch.randint(num_words, (batch_size, length + 1), generator=generator)
    drawn = torch.randint(1, length + 1, (batch_size, 1), generator=generator)
    place = length - (drawn if distance is None else torch.full_like(drawn, distance))
    signs = torch.full_like(words, PLAIN).scatter_(1, place, MARKED)
    signs[:, -1] = QUESTION
    return Batch((words, signs), words.gather(1, place)[:, 0])


def configurations(seeds: int = SEEDS, quick: bool = False) -> list[dict]:
    """One for each model, length of training and seed, the longest first. quick: a tenth of the steps."""
    return [
        {"model": model, "steps": steps // 10 if quick else steps, "seed": seed}
        for steps in sorted(SETTINGS["steps"], reverse=True)
        for seed in range(seeds)
        for model in SETTINGS["widths"]
    ]


def run(model: str, steps: int, seed: int) -> list[dict]:
    """One model, measured after its training, or without any after 0 steps: a row for each distance.

    gradient: relative to that at distance 1. accuracy: the share of right answers at this distance.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reader = Recall(model)
    parameters = sum(parameter.numel() for parameter in reader.parameters())
    batch_size, learning_rate = SETTINGS["batch_size"], SETTINGS["learning_rate"]
    if steps:
        train(reader, lambda g: sample(batch_size, g), steps=steps, seed=seed, learning_rate=learning_rate, label=model)
    return [row | {"parameters": parameters} for row in by_distance(reader, seed)]


def by_distance(reader: Recall, seed: int) -> list[dict]:
    """The gradient and the accuracy for marked words at each distance: a row each."""
    norms, right = [], []
    for distance in range(1, SETTINGS["length"] + 1):
        generator = torch.Generator().manual_seed(1_000_000 + seed)  # far from the seeds of the training
        batch = sample(SETTINGS["test_samples"], generator, distance)
        x = reader.embed(*batch.inputs).detach().requires_grad_()
        logits = reader.read(x)
        (gradient,) = torch.autograd.grad(logits.gather(1, batch.targets[:, None]).sum(), x)
        norms.append(gradient[:, -1 - distance].norm(dim=-1).mean().item())
        right.append((logits.argmax(-1) == batch.targets).double().mean().item())
    # Three digits and not so many decimals: far back in an untrained GRU there may be only 1e-13 left.
    return [
        {"distance": distance, "gradient": float(f"{norm / norms[0]:.3g}"), "accuracy": round(share, 4)}
        for distance, (norm, share) in enumerate(zip(norms, right, strict=True), 1)
    ]
