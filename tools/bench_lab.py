"""Time the laboratory: a training step and a forward pass with our layers and with PyTorch's, our steps and the plain
loop's, a token of a language model without and with a cache, and ways to run a sweep: `make bench`.

Adds the sections "training", "blocks", "steps", "cache" and "sweep" to what bench.py wrote. The sweep is that of
role_binding, every number of heads and five seeds, with fewer steps and without the tests after the training.
"""

import copy
import json
import os
import platform
import time

import torch
from bench import RESULT, paired_ratios, write
from torch import nn

from attn_core.lab.experiments import extrapolation, language_identification, role_binding, translation
from attn_core.lab.models.encoder import EncoderClassifier, EncoderLayer
from attn_core.lab.models.language_model import LanguageModel
from attn_core.lab.sweep import sweep
from attn_core.lab.training import cross_entropy

SECONDS_PER_CASE = 10
STEPS, SEEDS, WORKERS = 200, 5, 2
THREADS = torch.get_num_threads()  # torch's default, before anything below sets it


# Training: one step of ours against one with torch's layers.


def cases():
    """Name: (settings of an EncoderClassifier, batch size, length), from two experiments."""
    task, text = extrapolation.TASK, language_identification
    short = {"vocabulary_size": task.vocabulary_size, "num_classes": task.num_kinds, **extrapolation.SETTINGS["model"]}
    names = {"vocabulary_size": len(text.alphabet()) + 2, "num_classes": len(text.LANGUAGES), "num_heads": 8}
    names |= text.SETTINGS["model"] | {"pool": True}
    return {
        "extrapolation, none": (short, extrapolation.SETTINGS["batch_size"], 32),
        "extrapolation, sinusoidal": (short | {"encoding": "sinusoidal"}, extrapolation.SETTINGS["batch_size"], 32),
        "language, nothing padded": (names, text.SETTINGS["batch_size"], 24),
        "language, padded": (names | {"padding": text.PADDING}, text.SETTINGS["batch_size"], 24),
    }


def torch_layer(ours):
    """torch's pre-norm layer with copies of the weights of an EncoderLayer."""
    width, heads = ours.attention.embed_dim, ours.attention.num_heads
    options = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
    theirs = nn.TransformerEncoderLayer(width, heads, 4 * width, **options)
    theirs.self_attn = ours.attention.to_torch()
    theirs.norm1, theirs.norm2 = copy.deepcopy(ours.attention_norm), copy.deepcopy(ours.network_norm)
    theirs.linear1, theirs.linear2 = copy.deepcopy(ours.network[0]), copy.deepcopy(ours.network[2])
    return theirs


def torch_logits(model, tokens):
    """The steps of EncoderClassifier.forward, for a model with torch's layers."""
    x = model.embedding(tokens)
    if model.code is not None:
        x = model.code(x)
    blocked = None if model.padding is None else tokens == model.padding
    for layer in model.layers:
        x = layer(x, src_key_padding_mask=blocked)
    x = model.norm(x)
    if model.pool:
        share = torch.ones_like(tokens) if model.padding is None else tokens != model.padding
        x = torch.einsum("bld,bl->bd", x, (share / share.sum(1, keepdim=True).clamp(min=1)).to(x))
    return model.answer(x)


def training_calls(settings, batch_size, length):
    """The two steps to compare, on the same weights and batch. Raises AssertionError where the logits differ."""
    ours = EncoderClassifier(**settings)
    theirs = copy.deepcopy(ours)
    theirs.layers = nn.ModuleList(torch_layer(layer) for layer in ours.layers)
    tokens = torch.randint(1, settings["vocabulary_size"], (batch_size, length))
    if ours.padding is not None:  # up to a third of each input is padding
        real = torch.randint(2 * length // 3, length + 1, (batch_size, 1))
        tokens[torch.arange(length) >= real] = ours.padding
    targets = torch.randint(settings["num_classes"], (batch_size,) if ours.pool else (batch_size, length))
    torch.testing.assert_close(ours(tokens), torch_logits(theirs, tokens), rtol=1e-4, atol=1e-5)

    def step(model, logits):
        # A rate of 0 takes as long, and neither model moves, however long the two are timed.
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.01)

        def call():
            loss = cross_entropy(logits(tokens), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return call

    return step(ours, ours), step(theirs, lambda tokens: torch_logits(theirs, tokens))


def bench_training(seconds=SECONDS_PER_CASE):
    """A row for each case; one torch thread, as in the processes of a sweep."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("\ntraining, 1 thread           ours/torch  ours steps/s  torch steps/s  pairs")
    rows = []
    for name, case in cases().items():
        ratio, pairs, ms = paired_ratios(*training_calls(*case), seconds)
        rate = {side: 1e3 / middle for side, middle in ms.items()}
        rows.append({"case": name, "ratio": ratio, "pairs": pairs, "steps_per_second": rate})
        print(f"{name:28} {ratio:10.3f} {rate['ours']:13.1f} {rate['torch']:14.1f} {pairs:6}", flush=True)
    return rows


# A block: the forward passes of notebook 5, ours and torch's, in float64 as there.


def block_calls(batch_size, length):
    """The two passes to compare, on the same weights and input. Raises AssertionError where the outputs differ."""
    ours = EncoderLayer(64, 8).double().eval()
    theirs, x = torch_layer(ours).eval(), torch.randn(batch_size, length, 64).double()
    torch.testing.assert_close(ours(x), theirs(x))

    def call(layer):
        with torch.no_grad():
            layer(x)

    return lambda: call(ours), lambda: call(theirs)


def bench_blocks(seconds=SECONDS_PER_CASE):
    """A row for each shape; one torch thread."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("\nblock, forward, 1 thread     ours/torch     ours ms     torch ms   pairs")
    rows = []
    for batch_size, length in ((1, 16), (8, 64), (1, 512)):
        ratio, pairs, ms = paired_ratios(*block_calls(batch_size, length), seconds)
        rows.append({"batch_size": batch_size, "length": length, "ratio": ratio, "pairs": pairs, "ms": ms})
        print(f"{f'B = {batch_size}, L = {length}':28} {ratio:10.3f} {ms['ours']:11.2f} {ms['torch']:12.2f} {pairs:7}")
    return rows


# The next token of a language model as large as that of notebook 5: read all again, or read one with a cache.


def cache_calls(length):
    model = LanguageModel(261, d_model=64, num_heads=8, num_layers=2).double()
    tokens = torch.randint(261, (1, length + 1))
    with torch.no_grad():
        cache = model.read(tokens[:, :-1]).cache

    def without():
        with torch.no_grad():
            model(tokens)

    def with_cache():
        with torch.no_grad():
            model.read(tokens[:, -1:], cache)

    return without, with_cache


def bench_cache(seconds=SECONDS_PER_CASE):
    """A row for each length; one torch thread."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("\nnext token, 1 thread       without/with  without ms     with ms   pairs")
    rows = []
    for length in (32, 128, 512):
        ratio, pairs, ms = paired_ratios(*cache_calls(length), seconds)
        rows.append(
            {"length": length, "ratio": ratio, "pairs": pairs, "ms": {"without": ms["ours"], "with": ms["torch"]}}
        )
        print(f"{f'after {length} tokens':26} {ratio:12.2f} {ms['ours']:11.2f} {ms['torch']:11.2f} {pairs:7}")
    return rows


# The steps of the experiments, against the plain loop: AdamW as it comes, one call for each parameter.


def experiment_models():
    """Name: (a new model, a function that samples its batches), one for each kind of model that is trained."""
    task = role_binding.RoleBinding(**role_binding.SETTINGS["task"])
    yield (
        "role_binding, 8 heads",
        role_binding.RoleReader(task.num_words, role_binding.SETTINGS["d_model"], 8),
        lambda g: task.sample(role_binding.SETTINGS["batch_size"], g),
    )
    yield "language, 8 heads", language_identification.new_model(8, 0), language_identification.training_batch
    model = EncoderClassifier(
        extrapolation.TASK.vocabulary_size, extrapolation.TASK.num_kinds, **extrapolation.SETTINGS["model"]
    )
    yield "extrapolation, none", model, extrapolation.training_batch
    for name in translation.SETTINGS["models"]:
        yield (
            f"translation, {name}",
            translation.new_translator(name),
            lambda g: translation.training_batch(g, 45, 1200),
        )


def step_calls(model, sample):
    """Our step and the plain loop's, on copies of one model and the same batches."""

    def step(model, **options):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.01, **options)
        generator = torch.Generator().manual_seed(0)

        def call():
            batch = sample(generator)
            loss = cross_entropy(model(*batch.inputs), batch.targets)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return call

    return step(copy.deepcopy(model), fused=True), step(model)


def bench_steps(seconds=SECONDS_PER_CASE):
    """A row for each kind of model; one torch thread, as in the processes of a sweep."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("\nsteps, 1 thread              ours/plain     ours ms     plain ms   pairs")
    rows = []
    for name, model, sample in experiment_models():
        ratio, pairs, ms = paired_ratios(*step_calls(model, sample), seconds)
        rows.append({"case": name, "ratio": ratio, "pairs": pairs, "ms": {"ours": ms["ours"], "plain": ms["torch"]}})
        print(f"{name:28} {ratio:10.3f} {ms['ours']:11.2f} {ms['torch']:12.2f} {pairs:7}", flush=True)
    return rows


# A sweep: one run after the other, and in processes.


def train_one(heads, steps, seed):
    """One run, without its tests."""
    return {"parameters": sum(p.numel() for p in role_binding.trained_model(heads, steps, seed).parameters())}


def bench_sweep(steps=STEPS):
    """A row for each way to do all runs: seconds on the clock, and their ratio to one after the other.

    A pool's seconds include the start of its processes, which import torch first.
    """
    os.environ["TQDM_DISABLE"] = "1"
    runs = [
        {"heads": heads, "steps": steps, "seed": seed}
        for seed in range(SEEDS)
        for heads in role_binding.SETTINGS["heads"]
    ]
    ways = {"one after the other, 1 thread": 1, "one after the other, default threads": THREADS, "pool": None}
    print(f"\n{f'sweep, {len(runs)} runs, {steps} steps':38} seconds   ratio")
    rows = []
    for name, threads in ways.items():
        start = time.perf_counter()
        if threads is None:
            done = sweep(runs, train_one, workers=WORKERS)
            if done.failures:
                raise RuntimeError(done.failures)
        else:
            torch.set_num_threads(threads)
            for configuration in runs:
                train_one(**configuration)
        seconds = time.perf_counter() - start
        row = {"way": name, "seconds": seconds, "ratio": seconds / (rows[0]["seconds"] if rows else seconds)}
        note = ""
        if threads is None:  # what the runs leave of the seconds: the start, and a process that waits for the last run
            row["seconds_idle"] = seconds - sum(one["seconds"] for one in done.rows) / WORKERS
            note = f"  {row['seconds_idle']:.1f} s of them to start {WORKERS} processes and to wait for the last run"
        rows.append(row)
        print(f"{name:36} {seconds:9.1f} {row['ratio']:7.3f}{note}", flush=True)
    return {"runs": len(runs), "steps": steps, "workers": WORKERS, "ways": rows}


def main():
    sections = {
        "training": {"threads": 1, "cases": bench_training()},
        "blocks": {"threads": 1, "cases": bench_blocks()},
        "steps": {"threads": 1, "cases": bench_steps()},
        "cache": {"threads": 1, "cases": bench_cache()},
        "sweep": bench_sweep(),
    }
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    write(known | sections | {"lab_torch": torch.__version__, "lab_platform": platform.platform()})


if __name__ == "__main__":
    main()
