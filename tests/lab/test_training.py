"""Training: repeatable, with the schedule it promises, quiet when asked, and stopped by a loss that is no number."""

import math

import pytest
import torch
from torch import nn

from attn_core.lab.models.encoder import EncoderClassifier
from attn_core.lab.tasks import NOTHING, Batch
from attn_core.lab.tasks.nearest_item import NearestItem
from attn_core.lab.training import accuracy, cross_entropy, train, train_to_plateau

TASK = NearestItem(num_kinds=2)


def small_model(seed=0):
    torch.manual_seed(seed)
    return EncoderClassifier(3, 2, d_model=16, num_heads=2, num_layers=1, encoding="alibi")


def nearest_items(generator):
    return TASK.sample(16, generator, 8)


def trained(seed=0, model_seed=0, steps=8, **options):
    model = small_model(model_seed)
    return model, train(model, nearest_items, steps=steps, seed=seed, **options)


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_the_same_seed_gives_the_same_losses_and_weights():
    (one, first), (two, second) = trained(), trained()
    assert first == second
    assert torch.equal(weights(one), weights(two))


def test_another_seed_gives_other_data_and_another_start_another_model():
    _, first = trained()
    assert trained(seed=1)[1].losses[0] != first.losses[0]
    assert trained(model_seed=1)[1].losses[0] != first.losses[0]


def test_training_neither_reads_nor_moves_the_global_random_state():
    model = small_model()
    before = torch.get_rng_state()
    train(model, nearest_items, steps=3)
    assert torch.equal(torch.get_rng_state(), before)
    other = small_model()
    torch.manual_seed(99)
    train(other, nearest_items, steps=3)
    assert torch.equal(weights(model), weights(other))


def test_the_learning_rate_rises_over_the_warmup_and_falls_to_almost_nothing():
    _, history = trained(steps=50, warmup=10, learning_rate=1e-3)
    rates = history.learning_rates
    assert len(rates) == len(history.losses) == 50
    assert rates[0] == pytest.approx(1e-4)
    assert rates[:10] == sorted(rates[:10]) and rates[9:] == sorted(rates[9:], reverse=True)
    assert 0.9e-3 < max(rates) <= 1e-3
    assert 0 < rates[-1] < 2e-6
    assert rates[30] == pytest.approx(1e-3 * 0.5 * (1 + math.cos(math.pi * 30 / 50)))


@pytest.mark.parametrize("warmup", [0, 1])
def test_without_a_warmup_the_first_step_has_the_highest_rate(warmup):
    rates = trained(steps=4, warmup=warmup, learning_rate=1e-3)[1].learning_rates
    assert rates[0] == max(rates) == 1e-3


def test_a_tiny_task_is_learned():
    model, history = trained(steps=150, warmup=10, learning_rate=1e-2)
    assert sum(history.losses[-10:]) < 0.5 * sum(history.losses[:10])
    unseen = TASK.sample(200, torch.Generator().manual_seed(1_000_000), 8)
    assert accuracy(model, unseen) > TASK.chance(8) + 0.03


def test_a_loss_that_is_no_number_stops_with_the_step_and_the_learning_rate():
    model, calls = small_model(), []

    def sample(generator):
        calls.append(1)
        if len(calls) == 4:
            with torch.no_grad():
                model.answer.bias.fill_(torch.nan)
        return nearest_items(generator)

    with pytest.raises(FloatingPointError, match="became nan at step 3 with learning_rate 0.02; a lower learning_rate"):
        train(model, sample, steps=10, learning_rate=0.02)
    assert len(calls) == 4


@pytest.mark.parametrize("steps", [0, -3])
def test_a_wrong_number_of_steps_is_refused(steps):
    with pytest.raises(ValueError, match=f"steps must be at least 1, got {steps}"):
        train(small_model(), nearest_items, steps=steps)


def test_the_progress_bar_carries_the_label_and_leaves_nothing_behind(monkeypatch, capsys):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    trained(steps=3, label="rotary")
    out, errors = capsys.readouterr()
    assert out == "" and "rotary:" in errors
    *_, last, end = errors.split("\r")
    assert last.isspace() and end == ""


def test_the_progress_bar_is_silent_when_asked(monkeypatch, capsys):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    trained(steps=3, label="rotary")
    assert capsys.readouterr() == ("", "")


def test_the_loss_is_the_mean_over_what_is_asked():
    logits = torch.tensor([[[2.0, 0.0], [0.0, 0.0], [5.0, -5.0]]])
    targets = torch.tensor([[1, 0, NOTHING]])
    expected = (math.log(1 + math.exp(2)) + math.log(2)) / 2
    assert cross_entropy(logits, targets).item() == pytest.approx(expected)
    logits[0, 2] = 100.0  # what stands where nothing is asked does not matter
    assert cross_entropy(logits, targets).item() == pytest.approx(expected)
    assert cross_entropy(logits[:, 0], targets[:, 0]).item() == pytest.approx(math.log(1 + math.exp(2)))


def test_accuracy_counts_what_is_asked_only():
    answers = nn.functional.one_hot(torch.tensor([[0, 1, 1, 0]]), 2).float()
    batch = Batch((answers,), torch.tensor([[0, 0, 1, NOTHING]]))
    assert accuracy(nn.Identity(), batch) == pytest.approx(2 / 3)


@pytest.mark.parametrize("training", [True, False])
def test_accuracy_is_measured_without_dropout_and_the_mode_comes_back(training):
    model = nn.Sequential(nn.Dropout(0.9)).train(training)
    batch = Batch((nn.functional.one_hot(torch.arange(2).repeat(500), 2).float(),), torch.arange(2).repeat(500))
    assert accuracy(model, batch) == 1.0
    assert model.training == model[0].training == training


def test_a_model_trains_in_training_mode():
    seen = []

    class Spy(nn.Linear):
        def forward(self, x):
            seen.append(self.training)
            return super().forward(x)

    model = nn.Sequential(nn.Embedding(3, 4), Spy(4, 2)).eval()
    train(model, nearest_items, steps=2)
    assert seen == [True, True]


def test_a_watch_is_called_after_each_step_with_the_steps_done():
    seen, model = [], small_model()
    train(model, nearest_items, steps=3, watch=lambda step: seen.append((step, weights(model).sum().item())))
    assert [step for step, _ in seen] == [1, 2, 3]
    assert len({total for _, total in seen}) == 3  # after the step, not before it


# Until it no longer helps


def to_plateau(losses, **options):
    """A training whose checks find these losses, one after another."""
    options = {"most_steps": 2 * len(losses), "check_every": 2, "warmup": 0, "learning_rate": 1e-3} | options
    given = iter(losses)
    return train_to_plateau(small_model(), nearest_items, lambda step: next(given), **options)


def test_a_loss_that_keeps_falling_is_trained_on_to_the_last_step_allowed():
    checks, reached = to_plateau([0.9**k for k in range(12)], patience=1, cuts=1)
    assert not reached
    assert [check.steps for check in checks] == list(range(2, 25, 2))
    assert {check.learning_rate for check in checks} == {1e-3}


def test_the_rate_is_cut_where_the_loss_stays_and_after_the_cuts_training_ends():
    checks, reached = to_plateau([1.0] * 20, patience=2, cuts=2)
    assert reached
    # The first check is the least so far; two more may pass, the next one cuts.
    assert [check.learning_rate for check in checks] == pytest.approx(4 * [1e-3] + 3 * [2.5e-4] + 3 * [6.25e-5])


def test_a_fall_of_less_than_a_hundredth_is_none():
    slow, fast = ([factor**k for k in range(20)] for factor in (0.996, 0.98))
    assert to_plateau(slow, patience=1, cuts=0).reached
    assert not to_plateau(fast, patience=1, cuts=0).reached


def test_the_warmup_of_a_training_to_its_plateau_rises_to_the_rate():
    rates, model, rate_of = [], small_model(), torch.optim.AdamW.step

    def watched(self, *args, **kwargs):
        rates.append(self.param_groups[0]["lr"])
        return rate_of(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", watched)
        options = {"most_steps": 6, "check_every": 6, "warmup": 4, "learning_rate": 1e-3}
        train_to_plateau(model, nearest_items, lambda step: 1.0, **options)
    assert rates == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3, 1e-3])


def test_a_validation_is_told_the_steps_done():
    told = []
    options = {"most_steps": 5, "check_every": 2, "warmup": 0}
    train_to_plateau(small_model(), nearest_items, lambda step: told.append(step) or 1.0, **options)
    assert told == [2, 4]


def test_the_one_call_for_all_parameters_steps_as_pytorchs_default_does(monkeypatch):
    adamw, losses = torch.optim.AdamW, {}
    for fused in (True, False):
        monkeypatch.setattr(torch.optim, "AdamW", lambda *args, **options: adamw(*args, **options | {"fused": fused}))  # noqa: B023
        losses[fused] = trained(steps=30)[1].losses
    assert losses[True] == pytest.approx(losses[False], abs=1e-4)


@pytest.mark.parametrize("steps", [0, -1])
def test_a_wrong_number_of_most_steps_is_refused(steps):
    with pytest.raises(ValueError, match=f"most_steps must be at least 1, got {steps}"):
        train_to_plateau(small_model(), nearest_items, lambda step: 1.0, most_steps=steps, check_every=1)
