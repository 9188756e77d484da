"""The translation experiment: equal sizes, what it trains on, and the rows it gives."""

import math

import pytest
import torch

from attn_core.lab.__main__ import EXPERIMENTS
from attn_core.lab.experiments import translation
from attn_core.lab.experiments.translation import SETTINGS, configurations, new_translator, run, training_batch
from attn_core.lab.tasks.number_words import PAD, SOURCE_WORDS, is_held_out


def test_the_three_models_have_about_as_many_parameters():
    counts = [sum(p.numel() for p in new_translator(model).parameters()) for model in SETTINGS["models"]]
    assert len(counts) == 3 and max(counts) <= 1.1 * min(counts)


def test_experiment_is_known_to_the_command():
    assert EXPERIMENTS["translation"] is translation


def test_every_model_runs_with_every_seed_for_the_same_steps():
    runs = configurations()
    assert len(runs) == 15 == len({(run["model"], run["seed"]) for run in runs})
    assert len({(run["longest"], run["words_per_batch"], run["steps"]) for run in runs}) == 1


def test_training_sentences_are_not_held_out_and_of_every_length_up_to_the_longest():
    generator, lengths = torch.Generator().manual_seed(0), set()
    for _ in range(60):
        (source, _), _ = training_batch(generator, 10, 300)
        lengths |= set((source != PAD).sum(1).tolist())
        assert not any(is_held_out([SOURCE_WORDS[i] for i in row if i != PAD]) for row in source)
    assert lengths == set(range(2, 11))


def test_a_training_batch_is_hardly_filled_up():
    generator = torch.Generator().manual_seed(0)
    sources = [training_batch(generator, 45, 1200).inputs[0] for _ in range(60)]
    assert sum(int((source != PAD).sum()) for source in sources) > 0.85 * sum(source.numel() for source in sources)


@pytest.mark.parametrize("model", SETTINGS["models"])
def test_a_run_gives_a_row_per_bucket_it_was_trained_for(model, monkeypatch):
    monkeypatch.setitem(SETTINGS, "test_sentences", 4)
    before = torch.random.get_rng_state()
    rows = run(model, longest=20, words_per_batch=100, steps=1, seed=0)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert [row["bucket"] for row in rows] == ["2-10", "11-20"]
    for row in rows:
        assert 0 <= row["exact_match"] <= 1 and 0 <= row["bleu"] <= 100
        assert row["parameters"] > 0 and math.isfinite(row["training_seconds"])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gru_attention", "transformer"])
def test_a_quick_run_learns_part_of_the_task(model):
    quick = next(c for c in configurations(1, quick=True) if c["model"] == model)
    (row,) = run(**quick)
    assert row["exact_match"] > 0.2 and row["bleu"] > 60


def test_unknown_model_is_refused():
    with pytest.raises(ValueError, match="model must be one of gru, gru_attention, transformer, got 'lstm'"):
        new_translator("lstm")


def test_sentences_too_short_for_every_bucket_are_refused_before_the_training():
    with pytest.raises(ValueError, match="longest must be at least 10, to have a bucket, got 9"):
        run("gru", longest=9, words_per_batch=100, steps=10**9, seed=0)


@pytest.mark.parametrize(("longest", "words_per_batch"), [(1, 100), (45, 44)])
def test_batch_that_no_sentence_fits_in_is_refused(longest, words_per_batch):
    with pytest.raises(ValueError, match=f"must hold, got {longest} and {words_per_batch}"):
        training_batch(torch.Generator(), longest, words_per_batch)
