"""Who translates number words into Chinese numerals: a GRU without attention, one with attention, or a Transformer?

All three have about as many parameters and are trained on the same sentences. What is scored is what they write by
themselves, character after character, for sentences that no training ever sees.
"""

import time

import torch
from torch import nn

from attn_core.lab.models.translators import GRUTranslator, TransformerTranslator, greedy
from attn_core.lab.tasks import Batch
from attn_core.lab.tasks.number_words import (
    SOURCE_WORDS,
    TARGET_CHARACTERS,
    NumberTranslation,
    bleu,
    decode_characters,
    evaluation_set,
    exact_match,
)
from attn_core.lab.training import train

SETTINGS = {
    # The widths make the three about equal in parameters.
    "models": {
        "gru": {"width": 144},
        "gru_attention": {"width": 128},
        "transformer": {"d_model": 64, "num_heads": 4, "num_layers": 2},
    },
    "length_band": 2,
    "learning_rate": 3e-3,
    "buckets": [[2, 10], [11, 20], [21, 30], [31, 45]],
    "test_sentences": 200,
}
TASK = NumberTranslation()


def configurations(seeds: int = 5, quick: bool = False) -> list[dict]:
    """One for each model and seed. quick: fewer and smaller steps, on sentences of the first bucket alone."""
    longest, words_per_batch, steps = (10, 500, 200) if quick else (45, 1200, 2000)
    return [
        {"model": model, "longest": longest, "words_per_batch": words_per_batch, "steps": steps, "seed": seed}
        for seed in range(seeds)
        for model in SETTINGS["models"]
    ]


def run(model: str, longest: int, words_per_batch: int, steps: int, seed: int) -> list[dict]:
    """One model, trained and tested: a row per bucket of up to the longest sentences it was trained on.

    exact_match: 0 to 1. bleu: 0 to 100. training_seconds: of CPU time, over all threads.
    Raises ValueError where no bucket is short enough.
    """
    buckets = [bucket for bucket in SETTINGS["buckets"] if bucket[1] <= longest]
    if not buckets:
        raise ValueError(f"longest must be at least {SETTINGS['buckets'][0][1]}, to have a bucket, got {longest!r}")
    begin = time.process_time()
    translator = trained_translator(model, longest, words_per_batch, steps, seed)
    seconds = round(time.process_time() - begin, 1)
    size = sum(parameter.numel() for parameter in translator.parameters())
    rows = []
    for words in buckets:
        batch = evaluation_set(tuple(words), SETTINGS["test_sentences"])
        # No longer than the longest right answer of the bucket: what goes on beyond it is wrong already.
        answers = greedy(translator, batch.inputs[0], max_len=batch.targets.size(1))
        texts, references = ([decode_characters(row) for row in ids] for ids in (answers, batch.targets))
        scores = {"exact_match": round(exact_match(texts, references), 4), "bleu": round(bleu(texts, references), 2)}
        rows.append({"bucket": f"{words[0]}-{words[1]}", **scores, "parameters": size, "training_seconds": seconds})
    return rows


def new_translator(model: str) -> nn.Module:
    """An untrained model. Raises ValueError for a name that is not in SETTINGS["models"]."""
    if model not in SETTINGS["models"]:
        raise ValueError(f"model must be one of {', '.join(SETTINGS['models'])}, got {model!r}")
    sizes, settings = (len(SOURCE_WORDS), len(TARGET_CHARACTERS)), SETTINGS["models"][model]
    if model == "transformer":
        return TransformerTranslator(*sizes, **settings)
    return GRUTranslator(*sizes, attention=model == "gru_attention", **settings)


def trained_translator(model: str, longest: int, words_per_batch: int, steps: int, seed: int) -> nn.Module:
    """A model after its training on sentences of 2 to longest words. The global random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        translator = new_translator(model)

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
