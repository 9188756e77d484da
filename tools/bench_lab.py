"""Time the laboratory: a training step against PyTorch's encoder layers, and ways to run a sweep: `make bench`.

Adds the sections "training" and "sweep" to what bench.py wrote. The sweep is that of role_binding, every number of
heads and five seeds, with fewer steps and without the tests after the training, which are the same in every way.
"""

import copy
import json
import os
import platform
import time
import warnings

import torch
from bench import RESULT, paired_ratios, write
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

from attn_core.lab import extrapolation, language_identification, role_binding
from attn_core.lab.models import EncoderClassifier
from attn_core.lab.sweep import sweep
from attn_core.lab.training import _share_of_rate, cross_entropy, train

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
    if ours.padding is not None:  # up to a third of an input
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


# A sweep: one run after the other, in processes, and with the seeds of a setting in one model.


def new_reader(heads, seed):
    """An untrained model, as role_binding.trained_model makes it, and a function that samples its batches."""
    task, settings = role_binding.RoleBinding(**role_binding.SETTINGS["task"]), role_binding.SETTINGS
    torch.manual_seed(seed)
    model = role_binding.RoleReader(task.num_words, settings["d_model"], heads)
    return model, lambda generator: task.sample(settings["batch_size"], generator)


def train_one(heads, steps, seed):
    """One run, without its tests."""
    model, sample = new_reader(heads, seed)
    history = train(model, sample, steps=steps, seed=seed, learning_rate=role_binding.SETTINGS["learning_rate"])
    return {"loss": history.losses[-1]}


def train_group(heads, steps, seeds):
    """The runs of several seeds at once: `train` with a leading axis of seeds on every parameter and batch."""
    models, samples = zip(*(new_reader(heads, seed) for seed in seeds), strict=True)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    parameters, _ = stack_module_state(models)
    optimizer = torch.optim.AdamW(parameters.values(), lr=role_binding.SETTINGS["learning_rate"], weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _share_of_rate(step, steps, 100))

    def loss_of(parameters, words, roles, targets):
        return cross_entropy(functional_call(models[0], parameters, (words, roles)), targets)

    gradients_and_loss = vmap(grad_and_value(loss_of))
    for _ in range(steps):
        batches = [sample(generator) for sample, generator in zip(samples, generators, strict=True)]
        tensors = zip(*((*batch.inputs, batch.targets) for batch in batches), strict=True)
        with torch.no_grad(), warnings.catch_warnings():  # no second graph around the one that vmap makes
            # torch has no batched form of the fused attention on a CPU and says that it takes the seeds in turn.
            # The unfused form has one, and is slower but for 32 heads.
            warnings.filterwarnings("ignore", message="There is a performance drop")
            gradients, losses = gradients_and_loss(parameters, *map(torch.stack, tensors))
        if not losses.isfinite().all():
            raise FloatingPointError(f"a loss is no finite number: {losses.tolist()}")
        clip_each(gradients)
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimizer.step()
        schedule.step()
    return {"losses": losses.tolist()}


def clip_each(gradients):
    """`clip_grad_norm_(..., 1.0)` of each seed, in place."""
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients.values()]).norm(dim=0)  # (seeds,)
    factors = (1.0 / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients.values():
        gradient.mul_(factors.view(-1, *(1,) * (gradient.dim() - 1)))


def check_group(heads=8, steps=20):
    """Raise AssertionError where a seed has another loss in a group than alone."""
    seeds = list(range(SEEDS))
    alone = [train_one(heads, steps, seed)["loss"] for seed in seeds]
    torch.testing.assert_close(train_group(heads, steps, seeds)["losses"], alone, rtol=0, atol=1e-4)


def bench_sweep(steps=STEPS):
    """A row for each way to do all runs: seconds on the clock, and their ratio to the plain loop.

    A pool's seconds include the start of its processes, which import torch first.
    """
    os.environ["TQDM_DISABLE"] = "1"
    check_group()
    runs = [run | {"steps": steps} for run in role_binding.configurations(SEEDS)]
    groups = [
        {"heads": heads, "steps": steps, "seeds": list(range(SEEDS))}
        for heads in dict.fromkeys(run["heads"] for run in runs)
    ]
    ways = {
        "plain loop, 1 thread": (train_one, runs, 1),
        "plain loop, default threads": (train_one, runs, THREADS),
        "pool": (train_one, runs, None),
        "seeds together, 1 thread": (train_group, groups, 1),
        "pool of seeds together": (train_group, groups, None),
    }
    title = f"sweep, {len(runs)} runs, {steps} steps"
    print(f"\n{title:30} seconds   ratio")
    rows = []
    for name, (run, configurations, threads) in ways.items():
        start = time.perf_counter()
        if threads is None:
            done = sweep(configurations, run, workers=WORKERS)
            if done.failures:
                raise RuntimeError(done.failures)
        else:
            torch.set_num_threads(threads)
            for configuration in configurations:
                run(**configuration)
        seconds = time.perf_counter() - start
        row = {"way": name, "seconds": seconds, "ratio": seconds / (rows[0]["seconds"] if rows else seconds)}
        note = ""
        if threads is None:  # what the runs leave of the seconds: the start, and a process that waits for the last run
            row["seconds_idle"] = seconds - sum(one["seconds"] for one in done.rows) / WORKERS
            note = f"  {row['seconds_idle']:.1f} s of them to start {WORKERS} processes and to wait for the last run"
        rows.append(row)
        print(f"{name:28} {seconds:9.1f} {row['ratio']:7.3f}{note}", flush=True)
    return {"runs": len(runs), "steps": steps, "workers": WORKERS, "ways": rows}


def main():
    sections = {
        "training": {"threads": 1, "cases": bench_training()},
        "sweep": bench_sweep(),
    }
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    write(known | sections | {"lab_torch": torch.__version__, "lab_platform": platform.platform()})


if __name__ == "__main__":
    main()
