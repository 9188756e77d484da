"""Two experiments: the time of eight heads over one, and how gradients fade with distance."""

import time

import pytest
import torch

from attn_core.lab.__main__ import EXPERIMENTS
from attn_core.lab.experiments import gradients, head_speed


@pytest.fixture
def small(monkeypatch):
    """Few positions and few samples: what is asked here does not need more."""
    for name, value in {"length": 12, "test_samples": 16, "batch_size": 32}.items():
        monkeypatch.setitem(gradients.SETTINGS, name, value)
    for name, value in {"length": 8, "embed_dim": 16}.items():
        monkeypatch.setitem(head_speed.SETTINGS, name, value)


@pytest.mark.parametrize("experiment", [gradients, head_speed], ids=["gradients", "head_speed"])
def test_the_command_knows_the_experiment_and_quick_runs_differ_in_their_amount_only(experiment):
    assert experiment in EXPERIMENTS.values()
    full, quick = experiment.configurations(3), experiment.configurations(3, quick=True)
    amount, lengths = ("steps", 3) if experiment is gradients else ("pairs", 1)
    assert len(full) == 6 * lengths and {one["seed"] for one in full} == {0, 1, 2}
    assert [one | {amount: 0} for one in full] == [one | {amount: 0} for one in quick]
    assert all(short[amount] < long[amount] or long[amount] == 0 for short, long in zip(quick, full, strict=True))


def test_the_answer_is_the_word_that_is_marked_and_the_last_token_asks():
    for distance in (None, 1, 20, gradients.SETTINGS["length"]):
        (words, signs), targets = gradients.sample(50, torch.Generator().manual_seed(0), distance)
        marked = signs == gradients.MARKED
        assert marked.sum(1).tolist() == [1] * 50
        assert torch.equal(words[marked], targets)
        assert (signs[:, -1] == gradients.QUESTION).all() and (signs == gradients.QUESTION).sum() == 50
        if distance is not None:
            assert marked[:, -1 - distance].all()


def test_words_are_marked_at_every_distance():
    (_, signs), _ = gradients.sample(2000, torch.Generator().manual_seed(0))
    assert (signs == gradients.MARKED).any(0).tolist() == [True] * gradients.SETTINGS["length"] + [False]


def test_the_two_models_have_about_as_many_parameters():
    counts = [sum(p.numel() for p in gradients.Recall(kind).parameters()) for kind in gradients.SETTINGS["widths"]]
    assert len(counts) == 2 and max(counts) <= 1.1 * min(counts)


def test_an_untrained_gru_fades_and_attention_does_not(small):
    first, last = {}, {}
    for kind in ("gru", "attention"):
        torch.manual_seed(0)
        rows = gradients.by_distance(gradients.Recall(kind), seed=0)
        assert [row["distance"] for row in rows] == list(range(1, 13))
        first[kind], last[kind] = rows[0]["gradient"], rows[-1]["gradient"]
    assert first == {"gru": 1.0, "attention": 1.0}
    assert last["gru"] < 0.1
    assert 0.5 < last["attention"] < 2


def test_the_gradient_is_that_of_the_right_answer_at_the_marked_word(small, monkeypatch):
    monkeypatch.setitem(gradients.SETTINGS, "test_samples", 1)
    torch.manual_seed(0)
    reader = gradients.Recall("gru").double()
    norms = []
    for distance in range(1, 13):
        batch = gradients.sample(1, torch.Generator().manual_seed(1_000_000), distance)
        x, slopes = reader.embed(*batch.inputs).detach(), []
        for step in 1e-5 * torch.eye(x.size(-1), dtype=torch.float64):
            change = torch.zeros_like(x)
            change[0, -1 - distance] = step
            up, down = (reader.read(x + sign * change)[0, batch.targets[0]].item() for sign in (1, -1))
            slopes.append((up - down) / 2e-5)
        norms.append(torch.tensor(slopes).norm().item())
    found = [row["gradient"] for row in gradients.by_distance(reader, seed=0)]
    assert found == pytest.approx([norm / norms[0] for norm in norms], rel=1e-2)


@pytest.mark.parametrize("model", ["gru", "attention"])
def test_a_model_learns_to_recall_what_it_guesses_after_no_steps(small, model):
    before = torch.get_rng_state()
    untrained, trained = (gradients.run(model, steps=steps, seed=0) for steps in (0, 250))
    assert torch.equal(torch.get_rng_state(), before)
    assert [row["distance"] for row in untrained] == [row["distance"] for row in trained] == list(range(1, 13))
    assert sum(row["accuracy"] for row in untrained) / 12 < 0.5
    assert sum(row["accuracy"] for row in trained) / 12 > 0.95


def test_the_gradients_repeat_themselves(small):
    assert gradients.run("attention", 3, 1) == gradients.run("attention", 3, 1) != gradients.run("attention", 3, 2)


def test_calls_take_turns_in_alternating_order_after_two_each_that_are_not_counted():
    called = []
    times = head_speed.paired_times(lambda: called.append("a"), lambda: called.append("b"), 3)
    assert "".join(called) == "abab" + "ab" + "ba" + "ab"
    assert len(times) == 3 and all(second > 0 for pair in times for second in pair)


def test_the_ratio_is_that_of_eight_heads_over_one(monkeypatch):
    durations = {1: 0.002, 8: 0.02}
    monkeypatch.setattr(head_speed, "layer_call", lambda heads, *_: lambda: time.sleep(durations[heads]))
    for row in head_speed.run("explicit", pairs=5, seed=0):
        assert row["ratio"] > 2
        assert row["milliseconds_1"] < row["milliseconds_8"]


@pytest.mark.parametrize("path", head_speed.SETTINGS["paths"])
def test_a_path_is_timed_forward_alone_and_with_its_backward_pass(small, path):
    before = torch.get_rng_state()
    rows = head_speed.run(path, pairs=2, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert [row["part"] for row in rows] == ["forward", "forward and backward"]
    assert all(row["ratio"] > 0 for row in rows)


def test_the_explicit_path_keeps_weights_and_the_fused_one_none(small, monkeypatch):
    asked = []
    forward = head_speed.MultiHeadAttention.forward

    def watched(self, x, need_weights):
        out = forward(self, x, need_weights=need_weights)
        asked.append((self.num_heads, out.weights is not None, out.values.requires_grad))
        return out

    monkeypatch.setattr(head_speed.MultiHeadAttention, "forward", watched)
    for path in head_speed.SETTINGS["paths"]:
        for part in ("forward", "forward and backward"):
            head_speed.layer_call(8, path, part, seed=0)()
    assert asked == [(8, True, False), (8, True, True), (8, False, False), (8, False, True)]


def test_unknown_kinds_and_paths_get_a_sentence():
    with pytest.raises(ValueError, match="kind must be one of gru, attention, got 'lstm'"):
        gradients.Recall("lstm")
    with pytest.raises(ValueError, match="path must be one of explicit, fused, got 'quick'"):
        head_speed.layer_call(1, "quick", "forward", 0)
