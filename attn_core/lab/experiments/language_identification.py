"""On real text: does the number of heads change how well a small model names the language of a few words?

Names of their own, for validation, say after how many steps of its training a model is best; the names for testing are
looked at once, with that model.
"""

import copy
import functools
import random
import zlib
from collections import defaultdict
from typing import NamedTuple

import torch
from babel import Locale
from torch import Tensor, nn

from attn_core.attention import AttentionOutput
from attn_core.lab.experiments.role_binding import heads_text
from attn_core.lab.models.encoder import EncoderClassifier
from attn_core.lab.tasks import Batch
from attn_core.lab.training import accuracy, train

# Written in Latin letters, with a full set of names in CLDR. Bosnian is not among them: most of its names are Croatian
# ones too, and what is left is arbitrary.
LANGUAGES = (
    *("af", "az", "ca", "cs", "cy", "da", "de", "en", "es", "et", "eu", "fi", "fr", "ga", "gl", "hr", "hu", "id"),
    *("is", "it", "lt", "lv", "ms", "nb", "nl", "pl", "pt", "ro", "sk", "sl", "sq", "sv", "sw", "tr", "uz", "vi"),
)
SETTINGS = {
    "languages": list(LANGUAGES),
    "kinds": ["territories", "languages", "scripts", "variants", "currencies"],
    "longest_name": 48,
    "model": {"d_model": 64, "num_layers": 1, "encoding": "sinusoidal"},
    "heads": [None, 1, 2, 4, 8, 16, 32],
    # The training is as long as the last; what it is like on the way is measured at the others.
    "checkpoints": [100, 200, 400, 800, 1200, 1600],
    "batch_size": 128,
    "learning_rate": 5e-3,
    "length_factors": [1, 2, 4, 8],
    "rows_of_names": {"validation": 500, "test": 2000},
}
SEEDS = 10
PADDING, UNKNOWN = 0, 1

Names = list[tuple[str, int]]  # a name and the place of its language in LANGUAGES


class Splits(NamedTuple):
    """The names to train on, those that choose the checkpoint, and those that are looked at once."""

    training: Names
    validation: Names
    test: Names


@functools.cache
def names() -> Splits:
    """The names of places, languages, scripts and currencies in CLDR, as babel has them.

    A name that two languages share is left out, since it has no right answer. Two concepts in ten are for testing, one
    for validation, in all languages at once, so that no name, and no translation of it, is in two of the three.
    """
    languages_of, concept_of = defaultdict(set), {}
    for number, language in enumerate(LANGUAGES):
        locale = Locale.parse(language)
        for kind in SETTINGS["kinds"]:
            for code, name in sorted(getattr(locale, kind).items()):
                name = name[: SETTINGS["longest_name"]]
                languages_of[name].add(number)
                concept_of.setdefault(name, f"{kind} {code}")  # some names stand for two concepts
    splits = Splits([], [], [])
    for name, languages in sorted(languages_of.items()):
        if len(languages) == 1:
            tenth = zlib.crc32(concept_of[name].encode()) % 10
            split = splits.test if tenth in (0, 5) else splits.validation if tenth == 1 else splits.training
            split.append((name, *languages))
    return splits


@functools.cache
def alphabet() -> dict[str, int]:
    """The number of each character of the training names, from 2."""
    characters = sorted({character for name, _ in names().training for character in name})
    return {character: number for number, character in enumerate(characters, 2)}


def encode(chosen: Names) -> Batch:
    """Characters (N, L) filled up with PADDING, and languages (N,)."""
    known = alphabet()
    rows = [torch.tensor([known.get(character, UNKNOWN) for character in name]) for name, _ in chosen]
    characters = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
    return Batch((characters,), torch.tensor([language for _, language in chosen]))


@functools.cache
def encoded_training_names() -> Batch:
    return encode(names().training)


def training_batch(generator: torch.Generator) -> Batch:
    """Names of similar length, so that little padding is computed; each name is as likely as any other."""
    (characters,), languages = encoded_training_names()
    size = SETTINGS["batch_size"]
    drawn = torch.randint(len(characters), (4 * size,), generator=generator)
    band = int(torch.randint(4, (), generator=generator))
    lengths = (characters[drawn] != PADDING).sum(1)
    rows = drawn[lengths.argsort()[band * size : (band + 1) * size]]
    return Batch((characters[rows, : (characters[rows] != PADDING).sum(1).max()],), languages[rows])


@functools.cache
def inputs(split: str, factor: int, size: int = 500) -> list[Batch]:
    """Every name of a split but the training's; or, always the same, as many inputs as SETTINGS says, each of `factor`
    of its names of one language in a row."""
    chosen = getattr(names(), split)
    if factor > 1:
        rng, of_language = random.Random(factor), defaultdict(list)
        for name, language in chosen:
            of_language[language].append(name)
        drawn = [language for _, language in rng.sample(chosen, SETTINGS["rows_of_names"][split])]
        chosen = [(" ".join(rng.choices(of_language[language], k=factor)), language) for language in drawn]
    chosen = sorted(chosen, key=lambda row: len(row[0]))
    return [encode(chosen[start : start + size]) for start in range(0, len(chosen), size)]


class NoAttention(nn.Module):
    """In the place of attention: nothing comes from the other characters."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> AttentionOutput:
        """(B, L, D) -> zeros of the same shape."""
        return AttentionOutput(torch.zeros_like(x), None)


def configurations(seeds: int = SEEDS, quick: bool = False) -> list[dict]:
    """One for each number of heads, None for the control without attention, and seed. quick: a tenth of the steps."""
    steps = SETTINGS["checkpoints"][-1]
    return [
        {"heads": heads, "steps": steps // 10 if quick else steps, "seed": seed}
        for seed in range(seeds)
        for heads in SETTINGS["heads"]
    ]


def run(heads: int | None, steps: int, seed: int) -> list[dict]:
    """One model, trained, validated on the way and tested once: a row for each checkpoint or test, and names in a row.

    split: validation, at each checkpoint; test, of the checkpoint with the highest validation accuracy on single names.
    """
    curve, best = [], {}

    def watch(done: int) -> None:
        if done in SETTINGS["checkpoints"] or done == steps:
            rows = [row | {"split": "validation", "checkpoint": done} for row in measured(model, "validation")]
            if not curve or rows[0]["accuracy"] > max(row["accuracy"] for row in curve if row["length_factor"] == 1):
                best.update(checkpoint=done, state=copy.deepcopy(model.state_dict()))
            curve.extend(rows)

    model = new_model(heads, seed)
    _train(model, heads, steps, seed, watch)
    model.load_state_dict(best["state"])
    tested = [row | {"split": "test", "checkpoint": best["checkpoint"]} for row in measured(model, "test")]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return [row | {"parameters": parameters} for row in curve + tested]


def measured(model: EncoderClassifier, split: str) -> list[dict]:
    """A row per number of names in an input: the accuracy, and that of always naming the most frequent language."""
    rows = []
    for factor in SETTINGS["length_factors"]:
        batches = inputs(split, factor)
        counts = torch.cat([batch.targets for batch in batches]).bincount()
        right = sum(accuracy(model, batch) * len(batch.targets) for batch in batches) / counts.sum().item()
        chance = counts.max().item() / counts.sum().item()
        rows.append({"length_factor": factor, "accuracy": round(right, 4), "chance": round(chance, 4)})
    return rows


def trained_model(heads: int | None, steps: int, seed: int) -> EncoderClassifier:
    """A model after all of its training. The global random state stays as it was."""
    model = new_model(heads, seed)
    _train(model, heads, steps, seed)
    return model


def new_model(heads: int | None, seed: int) -> EncoderClassifier:
    """An untrained model. The global random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = EncoderClassifier(
            len(alphabet()) + 2,
            len(LANGUAGES),
            num_heads=heads or 1,
            pool=True,
            padding=PADDING,
            **SETTINGS["model"],
        )
    if heads is None:
        for layer in model.layers:
            layer.attention = NoAttention()
    return model


def _train(model, heads, steps, seed, watch=None) -> None:
    rate, label = SETTINGS["learning_rate"], heads_text(heads)
    train(model, training_batch, steps=steps, seed=seed, learning_rate=rate, label=label, watch=watch)
