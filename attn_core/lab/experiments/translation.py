"""Who translates number words into Chinese numerals: a GRU without attention, one with attention, or a Transformer?

All three have about as many parameters and draw the same sentences. Each is trained until it no longer gets better, by
the rule of `train_to_plateau` on sentences for validation. What is scored is what they write by themselves, character
after character, for sentences that no training ever sees: at the plateau, and after equally many steps.
"""

import time

import torch
from torch import nn

from attn_core.lab.models.translators import GRUTranslator, TransformerTranslator, greedy
from attn_core.lab.tasks import NOTHING, Batch
from attn_core.lab.tasks.number_words import (
    SOURCE_WORDS,
    TARGET_CHARACTERS,
    NumberTranslation,
    bleu,
    decode_characters,
    evaluation_set,
    exact_match,
)
from attn_core.lab.training import cross_entropy, train, train_to_plateau

SETTINGS = {
    # The widths make the three about equal in parameters.
    "models": {
        "gru": {"width": 144},
        "gru_attention": {"width": 128},
        "transformer": {"d_model": 64, "num_heads": 4, "num_layers": 2},
    },
    "longest": 45,
    "words_per_batch": 1200,
    "length_band": 2,
    "learning_rate": 3e-3,
    "plateau": {"check_every": 400, "patience": 2, "cuts": 2},
    "equal_steps": 2000,
    "buckets": [[2, 10], [11, 20], [21, 30], [31, 45]],
    "test_sentences": 200,
    "validation_sentences": 100,
}
SEEDS = 10
TASK = NumberTranslation()


def configurations(seeds: int = SEEDS, quick: bool = False) -> list[dict]:
    """One for each model and seed. most_steps: where a training without a plateau ends. quick: a few of them."""
    most_steps = 800 if quick else 10_000
    return [
        {"model": model, "most_steps": most_steps, "seed": seed}
        for seed in range(seeds)
        for model in SETTINGS["models"]
    ]


def run(model: str, most_steps: int, seed: int) -> list[dict]:
    """One model, trained to its plateau: a row for each check on the way, and for each test, and bucket of lengths.

    at: "check": exact_match is of validation sentences, given the right text before each character (up to the first
    wrong one the model reads the same by itself), and bleu is None. "equal steps" and "plateau": both are of test
    sentences. exact_match: 0 to 1. bleu: 0 to 100. loss: in validation, over all buckets. reached: whether the
    training ended at a plateau, and not with most_steps. training_seconds: of CPU time, with the checks.
    """
    translator = new_seeded_translator(model, seed)
    equal_steps = min(SETTINGS["equal_steps"], most_steps)
    validation = {bucket: _sentences(bucket, "validation") for bucket in _buckets()}
    rows = []

    def validate(step: int) -> float:
        losses, shares = zip(*(loss_and_exact_match(translator, batch) for batch in validation.values()), strict=True)
        loss = sum(losses) / len(losses)
        for bucket, share in zip(validation, shares, strict=True):
            rows.append({"at": "check", "steps": step, "bucket": bucket, "exact_match": share, "bleu": None})
        if step == equal_steps:
            rows.extend({"at": "equal steps", "steps": step, **row} for row in tested(translator))
        return loss

    begin = time.process_time()
    checks, reached = train_to_plateau(
        translator,
        lambda generator: training_batch(generator, SETTINGS["longest"], SETTINGS["words_per_batch"]),
        validate,
        most_steps=most_steps,
        seed=seed,
        learning_rate=SETTINGS["learning_rate"],
        label=model,
        **SETTINGS["plateau"],
    )
    seconds = round(time.process_time() - begin, 1)
    rows.extend({"at": "plateau", "steps": checks[-1].steps, **row} for row in tested(translator))
    of_check = {check.steps: check for check in checks}
    for row in rows:
        check = of_check[row["steps"]]
        row |= {"learning_rate": check.learning_rate, "loss": float(f"{check.loss:.4g}"), "reached": reached}
        row |= {"parameters": sum(p.numel() for p in translator.parameters()), "training_seconds": seconds}
    return rows


def loss_and_exact_match(translator: nn.Module, batch: Batch) -> tuple[float, float]:
    """In nats per character, and the share of sentences with every character right, given the right text before it."""
    with torch.no_grad():
        logits = translator(*batch.inputs)
    right = (logits.argmax(-1) == batch.targets) | (batch.targets == NOTHING)
    return cross_entropy(logits, batch.targets).item(), round(right.all(-1).double().mean().item(), 4)


def tested(translator: nn.Module) -> list[dict]:
    """A row per bucket: exact match and BLEU of what the model writes by itself for the test sentences."""
    rows = []
    for bucket in _buckets():
        batch = _sentences(bucket, "test")
        # No longer than the longest right answer of the bucket: what goes on beyond it is wrong already.
        answers = greedy(translator, batch.inputs[0], max_len=batch.targets.size(1))
        texts, references = ([decode_characters(row) for row in ids] for ids in (answers, batch.targets))
        scores = {"exact_match": round(exact_match(texts, references), 4), "bleu": round(bleu(texts, references), 2)}
        rows.append({"bucket": bucket, **scores})
    return rows


def _buckets() -> list[str]:
    return [f"{shortest}-{longest}" for shortest, longest in SETTINGS["buckets"]]


def _sentences(bucket: str, split: str) -> Batch:
    words = tuple(int(bound) for bound in bucket.split("-"))
    return evaluation_set(words, SETTINGS[f"{split}_sentences"], seed=1 if split == "validation" else 0)


def new_translator(model: str) -> nn.Module:
    """An untrained model. Raises ValueError for a name that is not in SETTINGS["models"]."""
    if model not in SETTINGS["models"]:
        raise ValueError(f"model must be one of {', '.join(SETTINGS['models'])}, got {model!r}")
    sizes, settings = (len(SOURCE_WORDS), len(TARGET_CHARACTERS)), SETTINGS["models"][model]
    if model == "transformer":
        return TransformerTranslator(*sizes, **settings)
    return GRUTranslator(*sizes, attention=model == "gru_attention", **settings)


def new_seeded_translator(model: str, seed: int) -> nn.Module:
    """The same untrained model for the same seed. The global random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return new_translator(model)


def trained_translator(model: str, longest: int, words_per_batch: int, steps: int, seed: int) -> nn.Module:
    """A model after a training of given length on sentences of 2 to longest words. The global random state stays."""
    translator = new_seeded_translator(model, seed)

    def sample(generator):
        return training_batch(generator, longest, words_per_batch)

    train(translator, sample, steps=steps, seed=seed, learning_rate=SETTINGS["learning_rate"], label=model)
    return translator


def training_batch(generator: torch.Generator, longest: int, words_per_batch: int) -> Batch:
    """Sentences of about one length, which is drawn first: the shorter, the more of them, up to words_per_batch.

    Filled up to the longest, sentences of all lengths together would cost twice as much.
    Raises ValueError unless 2 ≤ longest ≤ words_per_batch.
    """
    if not 2 <= longest <= words_per_batch:
        raise ValueError(f"2 ≤ longest ≤ words_per_batch must hold, got {longest!r} and {words_per_batch!r}")
    middle, band = int(torch.randint(2, longest + 1, (), generator=generator)), SETTINGS["length_band"]
    words = (max(2, middle - band), min(longest, middle + band))
    return TASK.sample(words_per_batch // words[1], generator, words)
