"""Train short, test long: which encoding of positions still works on inputs longer than those of its training?"""

import torch

from attn_core.lab.models.encoder import EncoderClassifier
from attn_core.lab.tasks import NOTHING, Batch
from attn_core.lab.tasks.nearest_item import NearestItem
from attn_core.lab.training import accuracy, train

SETTINGS = {
    "task": {"num_kinds": 8, "density": 0.2},
    "model": {"d_model": 32, "num_heads": 4, "num_layers": 2},
    # A learned table as long as the training inputs, and one with rows for the longest test that none of them reaches.
    "codes": [
        ["none", None],
        ["sinusoidal", None],
        ["learned", 32],
        ["learned", 256],
        ["rotary", None],
        ["alibi", None],
        ["relative", None],
    ],
    "steps": [3000, 12000],
    "batch_size": 32,
    "learning_rate": 5e-3,
    "training_lengths": [8, 32],
    "test_lengths": [32, 48, 64, 128, 256],
    "test_samples": 512,
}
SEEDS = 10
TASK = NearestItem(**SETTINGS["task"])


def configurations(seeds: int = SEEDS, quick: bool = False) -> list[dict]:
    """One for each code, length of training and seed, the longest first. quick: a tenth of the steps."""
    return [
        {"encoding": encoding, "max_len": max_len, "steps": steps // 10 if quick else steps, "seed": seed}
        for steps in sorted(SETTINGS["steps"], reverse=True)
        for seed in range(seeds)
        for encoding, max_len in SETTINGS["codes"]
    ]


def run(encoding: str, max_len: int | None, steps: int, seed: int) -> list[dict]:
    """One model, trained and tested: a row per test length.

    accuracy: over all positions. accuracy_within, accuracy_beyond: over those that training reached, and over the rest.
    None where there is nothing to measure, also where a learned table has no row to give.
    """
    model = trained_model(encoding, max_len, steps, seed)
    longest, rows = SETTINGS["training_lengths"][1], []
    for length in SETTINGS["test_lengths"]:
        # Seeds far from those of the training: no test input has been seen.
        batch = TASK.sample(SETTINGS["test_samples"], torch.Generator().manual_seed(1_000_000 + seed), length)
        beyond = torch.arange(length) >= longest
        parts = {
            "accuracy": batch.targets,
            "accuracy_within": batch.targets.masked_fill(beyond, NOTHING),
            "accuracy_beyond": batch.targets.masked_fill(~beyond, NOTHING) if length > longest else None,
        }
        out_of_rows = max_len is not None and length > max_len
        row = {"length": length, "chance": round(TASK.chance(length), 4)}
        for name, targets in parts.items():
            possible = targets is not None and not out_of_rows
            row[name] = round(accuracy(model, Batch(batch.inputs, targets)), 4) if possible else None
        rows.append(row | {"parameters": sum(parameter.numel() for parameter in model.parameters())})
    return rows


def trained_model(encoding: str, max_len: int | None, steps: int, seed: int) -> EncoderClassifier:
    """A model after its training on batches of random lengths. The global random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = EncoderClassifier(
            TASK.vocabulary_size, TASK.num_kinds, encoding=encoding, max_len=max_len, **SETTINGS["model"]
        )
    label = encoding if max_len is None else f"{encoding}, {max_len} rows"
    train(model, training_batch, steps=steps, seed=seed, learning_rate=SETTINGS["learning_rate"], label=label)
    return model


def training_batch(generator: torch.Generator) -> Batch:
    """A batch of one length, which is drawn first."""
    shortest, longest = SETTINGS["training_lengths"]
    length = int(torch.randint(shortest, longest + 1, (), generator=generator))
    return TASK.sample(SETTINGS["batch_size"], generator, length)
