"""On real text: does the number of heads change how well a small model names the language of a few words?"""

import functools
import random
import zlib
from collections import defaultdict

import torch
from babel import Locale
from torch import Tensor, nn

from attn_core.attention import AttentionOutput
from attn_core.lab.models import EncoderClassifier
from attn_core.lab.role_binding import HEADS, heads_text
from attn_core.lab.tasks import Batch
from attn_core.lab.training import accuracy, train

# Written in Latin letters, with a full set of names in CLDR. Bosnian is not among them: most of its names are Croatian
# ones too, and what is left is arbitrary.
LANGUAGES = (
    *("af", "az", "ca", "cs", "cy", "da", "de", "en", "es", "et", "eu", "fi", "fr", "ga", "gl", "hr", "hu", "id"),
    *("is", "it", "lt", "lv", "ms", "nb", "nl", "pl", "pt", "ro", "sk", "sl", "sq", "sv", "sw", "tr", "uz", "vi"),
)
KINDS = ("territories", "languages", "scripts", "variants", "currencies")
SETTINGS = {
    "languages": len(LANGUAGES),
    "longest_name": 48,
    "model": {"d_model": 64, "num_layers": 1, "encoding": "sinusoidal"},
    "batch_size": 128,
    "learning_rate": 5e-3,
    "length_factors": [1, 2, 4, 8],
}
PADDING, UNKNOWN = 0, 1

Names = list[tuple[str, int]]  # a name and the place of its language in LANGUAGES


@functools.cache
def names() -> tuple[Names, Names]:
    """The names of places, languages, scripts and currencies in CLDR, as babel has them: for training and for testing.

    A name that two languages share is left out, since it has no right answer. One concept in five is for testing, in
    all languages at once, so that no name, and no translation of it, is in both.
    """
    languages_of, concept_of = defaultdict(set), {}
    for number, language in enumerate(LANGUAGES):
        locale = Locale.parse(language)
        for kind in KINDS:
            for code, name in sorted(getattr(locale, kind).items()):
                name = name[: SETTINGS["longest_name"]]
                languages_of[name].add(number)
                concept_of.setdefault(name, f"{kind} {code}")  # some names stand for two concepts
    training, testing = [], []
    for name, languages in sorted(languages_of.items()):
        if len(languages) == 1:
            half = testing if zlib.crc32(concept_of[name].encode()) % 5 == 0 else training
            half.append((name, *languages))
    return training, testing


@functools.cache
def alphabet() -> dict[str, int]:
    """The number of each character of the training names, from 2."""
    characters = sorted({character for name, _ in names()[0] for character in name})
    return {character: number for number, character in enumerate(characters, 2)}


def encode(chosen: Names) -> Batch:
    """Characters (N, L) filled up with PADDING, and languages (N,)."""
    known = alphabet()
    rows = [torch.tensor([known.get(character, UNKNOWN) for character in name]) for name, _ in chosen]
    characters = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
    return Batch((characters,), torch.tensor([language for _, language in chosen]))


@functools.cache
def encoded_training_names() -> Batch:
    return encode(names()[0])


def training_batch(generator: torch.Generator) -> Batch:
    """Names of similar length, so that little padding is computed; each name is as likely as any other."""
    (characters,), languages = encoded_training_names()
    size = SETTINGS["batch_size"]
    drawn = torch.randint(len(characters), (4 * size,), generator=generator)
    band = int(torch.randint(4, (), generator=generator))
    lengths = (characters[drawn] != PADDING).sum(1)
    rows = drawn[lengths.argsort()[band * size : (band + 1) * size]]
    return Batch((characters[rows, : (characters[rows] != PADDING).sum(1).max()],), languages[rows])


def test_batches(factor: int, size: int = 500) -> list[Batch]:
    """Every test name; or 2000 inputs, each of `factor` test names of one language in a row, always the same."""
    testing = names()[1]
    if factor > 1:
        rng, of_language = random.Random(factor), defaultdict(list)
        for name, language in testing:
            of_language[language].append(name)
        chosen = [language for _, language in rng.sample(testing, 2000)]
        testing = [(" ".join(rng.choices(of_language[language], k=factor)), language) for language in chosen]
    testing = sorted(testing, key=lambda row: len(row[0]))
    return [encode(testing[start : start + size]) for start in range(0, len(testing), size)]


class NoAttention(nn.Module):
    """In the place of attention: nothing comes from the other characters."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> AttentionOutput:
        """(B, L, D) -> zeros of the same shape."""
        return AttentionOutput(torch.zeros_like(x), None)


def configurations(seeds: int = 5, quick: bool = False) -> list[dict]:
    """One for each number of heads and seed, and the control without attention. quick: a tenth of the steps."""
    return [
        {"heads": heads, "steps": 80 if quick else 800, "seed": seed}
        for seed in range(seeds)
        for heads in (None, *HEADS)
    ]


def run(heads: int | None, steps: int, seed: int) -> list[dict]:
    """One model, trained and tested: a row per number of names in an input."""
    model = trained_model(heads, steps, seed)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    training, testing = names()
    most_frequent = max(sum(language == number for _, language in testing) for number in range(len(LANGUAGES)))
    rows = []
    for factor in SETTINGS["length_factors"]:
        batches = test_batches(factor)
        right = sum(accuracy(model, batch) * len(batch.targets) for batch in batches)
        right /= sum(len(batch.targets) for batch in batches)
        rows.append(
            {
                "length_factor": factor,
                "accuracy": round(right, 4),
                "chance": round(most_frequent / len(testing), 4),
                "parameters": parameters,
                "training_names": len(training),
                "test_names": len(testing),
            }
        )
    return rows


def trained_model(heads: int | None, steps: int, seed: int) -> EncoderClassifier:
    """A model after its training. The global random state stays as it was."""
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
    train(
        model, training_batch, steps=steps, seed=seed, learning_rate=SETTINGS["learning_rate"], label=heads_text(heads)
    )
    return model
