"""Training short and testing long: what is trained, what is tested, and that neither knows the other."""

import pytest
import torch

from attn_core.lab.experiments import extrapolation
from attn_core.lab.models.encoder import EncoderClassifier


@pytest.fixture
def few_samples(monkeypatch):
    monkeypatch.setitem(extrapolation.SETTINGS, "test_samples", 4)


@pytest.mark.parametrize("encoding, max_len", extrapolation.SETTINGS["codes"])
def test_extrapolation_gives_a_row_for_each_length_and_none_where_the_table_has_none(few_samples, encoding, max_len):
    rows = extrapolation.run(encoding, max_len, steps=2, seed=0)
    assert [row["length"] for row in rows] == extrapolation.SETTINGS["test_lengths"]
    for row in rows:
        assert (row["accuracy"] is None) == (max_len is not None and row["length"] > max_len)
        assert row["accuracy"] is None or 0 <= row["accuracy"] <= 1
        assert row["chance"] == round(extrapolation.TASK.chance(row["length"]), 4)
    assert (max_len == 32) == any(row["accuracy"] is None for row in rows)


def test_extrapolation_tells_the_positions_of_the_training_from_those_beyond(few_samples, monkeypatch):
    asked = {}

    def watched(model, batch):
        places = (batch.targets >= 0).any(0).nonzero().flatten().tolist()
        asked.setdefault(batch.targets.size(1), []).append(places)
        return 0.5

    monkeypatch.setattr(extrapolation, "accuracy", watched)
    rows = extrapolation.run("none", None, steps=1, seed=0)
    assert rows[0]["accuracy_within"] == 0.5 and rows[0]["accuracy_beyond"] is None
    for length in (48, 256):
        everywhere, within, beyond = asked[length]
        assert (everywhere, max(within) <= 31, min(beyond) >= 32) == (within + beyond, True, True)


def test_extrapolation_repeats_itself_and_leaves_the_random_state(few_samples):
    before = torch.get_rng_state()
    first = extrapolation.run("rotary", None, steps=2, seed=3)
    torch.manual_seed(99)
    assert extrapolation.run("rotary", None, steps=2, seed=3) == first
    torch.set_rng_state(before)
    extrapolation.trained_model("rotary", None, 2, 3)
    assert torch.equal(torch.get_rng_state(), before)


def test_extrapolation_trains_on_every_length_up_to_the_longest_and_none_beyond():
    generator = torch.Generator().manual_seed(0)
    lengths = {extrapolation.training_batch(generator).targets.size(1) for _ in range(400)}
    shortest, longest = extrapolation.SETTINGS["training_lengths"]
    assert lengths == set(range(shortest, longest + 1))
    assert min(extrapolation.SETTINGS["test_lengths"]) >= longest


def test_no_test_input_of_extrapolation_was_seen_in_training(few_samples, monkeypatch):
    seen, tested, training_batch = set(), [], extrapolation.training_batch

    def watched(generator):
        batch = training_batch(generator)
        seen.update(map(tuple, batch.inputs[0].tolist()))
        return batch

    monkeypatch.setattr(extrapolation, "training_batch", watched)
    monkeypatch.setattr(extrapolation, "accuracy", lambda model, batch: tested.append(batch.inputs[0]) or 0.5)
    extrapolation.run("none", None, steps=60, seed=0)
    shapes = dict.fromkeys(tuple(batch.shape) for batch in tested)
    assert list(shapes) == [(4, length) for length in extrapolation.SETTINGS["test_lengths"]]
    assert any(len(row) == 32 for row in seen)
    assert seen.isdisjoint(tuple(row) for batch in tested for row in batch.tolist())


def test_rows_of_the_long_table_that_training_never_reaches_keep_their_direction():
    # Weight decay shortens them a little; nothing turns them.
    torch.manual_seed(0)
    start = EncoderClassifier(9, 8, encoding="learned", max_len=256, **extrapolation.SETTINGS["model"]).code.weight
    end = extrapolation.trained_model("learned", 256, 20, 0).code.weight
    likeness = torch.cosine_similarity(start, end, dim=1)
    assert likeness[32:].min() > 0.99999
    assert likeness[:8].max() < 0.9999


def test_quick_and_full_configurations_differ_in_their_steps_only():
    full, quick = extrapolation.configurations(2), extrapolation.configurations(2, quick=True)
    assert len(full) == 2 * len(extrapolation.SETTINGS["codes"]) * len(extrapolation.SETTINGS["steps"])
    assert {one["seed"] for one in full} == {0, 1}
    assert quick == [one | {"steps": one["steps"] // 10} for one in full]
