"""The translation experiment: equal sizes, what it trains on, and the rows it gives."""

import math

import pytest
import torch

from attn_core.lab.__main__ import EXPERIMENTS
from attn_core.lab.experiments import translation
from attn_core.lab.experiments.translation import SETTINGS, configurations, new_translator, run, training_batch
from attn_core.lab.models.translators import greedy
from attn_core.lab.tasks.number_words import (
    PAD,
    SOURCE_WORDS,
    decode_characters,
    evaluation_set,
    exact_match,
    is_held_out,
)


def test_the_three_models_have_about_as_many_parameters():
    counts = [sum(p.numel() for p in new_translator(model).parameters()) for model in SETTINGS["models"]]
    assert len(counts) == 3 and max(counts) <= 1.1 * min(counts)


def test_experiment_is_known_to_the_command():
    assert EXPERIMENTS["translation"] is translation


def test_every_model_runs_with_every_seed_and_may_take_as_many_steps():
    runs = configurations()
    assert len(runs) == 30 == len({(run["model"], run["seed"]) for run in runs})
    assert len({run["most_steps"] for run in runs}) == 1


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


@pytest.fixture
def small(monkeypatch):
    """Few and short sentences, many checks."""
    few = {"test_sentences": 4, "validation_sentences": 3, "longest": 20, "words_per_batch": 100, "equal_steps": 2}
    few |= {"plateau": {"check_every": 1, "patience": 9, "cuts": 0, "warmup": 0}, "buckets": [[2, 10], [11, 20]]}
    for name, value in few.items():
        monkeypatch.setitem(SETTINGS, name, value)


@pytest.mark.parametrize("model", SETTINGS["models"])
def test_a_run_gives_a_row_per_check_or_test_and_bucket(model, small):
    before = torch.random.get_rng_state()
    rows = run(model, most_steps=3, seed=0)
    assert torch.equal(torch.random.get_rng_state(), before)
    times = [(row["at"], row["steps"]) for row in rows[::2]]
    assert times == [("check", 1), ("check", 2), ("equal steps", 2), ("check", 3), ("plateau", 3)]
    assert [row["bucket"] for row in rows] == ["2-10", "11-20"] * 5
    for row in rows:
        assert 0 <= row["exact_match"] <= 1 and (row["bleu"] is None) == (row["at"] == "check")
        assert row["parameters"] > 0 and row["loss"] > 0 and math.isfinite(row["training_seconds"])
        assert row["reached"] is False


def test_a_run_ends_at_its_plateau_and_says_so(small, monkeypatch):
    monkeypatch.setitem(SETTINGS["plateau"], "patience", 0)
    monkeypatch.setattr(translation, "loss_and_exact_match", lambda model, batch: (1.0, 0.5))
    rows = run("gru", most_steps=50, seed=0)
    assert {row["reached"] for row in rows} == {True}
    assert rows[-1]["at"] == "plateau" and rows[-1]["steps"] == 2


def test_exact_match_in_validation_is_that_of_what_the_model_writes_by_itself():
    batch = evaluation_set((2, 3), 60)
    translator = translation.trained_translator("gru_attention", 4, 100, 120, 0)
    _, forced = translation.loss_and_exact_match(translator, batch)
    answers = greedy(translator, batch.inputs[0], batch.targets.size(1))
    texts, references = ([decode_characters(row) for row in ids] for ids in (answers, batch.targets))
    assert 0.1 < forced < 1 and forced == pytest.approx(exact_match(texts, references), abs=1e-4)


def test_no_sentence_for_validation_is_drawn_in_training():
    for bucket in SETTINGS["buckets"]:
        source = translation._sentences("{}-{}".format(*bucket), "validation").inputs[0]
        assert all(is_held_out([SOURCE_WORDS[i] for i in row if i != PAD]) for row in source)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gru_attention", "transformer"])
def test_a_short_training_learns_part_of_the_task(model):
    translator = translation.trained_translator(model, 10, 500, 200, 0)
    _, right = translation.loss_and_exact_match(translator, evaluation_set((2, 10), 200))
    assert right > 0.2


def test_unknown_model_is_refused():
    with pytest.raises(ValueError, match="model must be one of gru, gru_attention, transformer, got 'lstm'"):
        new_translator("lstm")


@pytest.mark.parametrize(("longest", "words_per_batch"), [(1, 100), (45, 44)])
def test_batch_that_no_sentence_fits_in_is_refused(longest, words_per_batch):
    with pytest.raises(ValueError, match=f"must hold, got {longest} and {words_per_batch}"):
        training_batch(torch.Generator(), longest, words_per_batch)
