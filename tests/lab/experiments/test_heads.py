"""The two experiments on the number of heads: their data, their controls, and what they measure."""

import itertools
import math

import pandas as pd
import pytest
import torch
from babel import Locale

from attn_core.attention import AttentionOutput
from attn_core.lab.experiments import language_identification as languages
from attn_core.lab.experiments import role_binding as binding
from attn_core.lab.tasks import Batch


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Role binding


@pytest.mark.parametrize("length", [8, 16, 64])
def test_each_role_stands_at_one_word_and_the_target_is_that_word(length):
    (words, roles), targets = binding.RoleBinding().sample(50, generator(), length)
    assert words.shape == roles.shape == (50, length)
    for row, marks, wanted in zip(words, roles, targets, strict=True):
        assert marks.bincount(minlength=9).tolist() == [length - 8] + 8 * [1]
        assert [row[marks == role].item() for role in range(1, 9)] == wanted.tolist()


def test_roles_stand_anywhere_and_any_word_has_any_role():
    (_, roles), targets = binding.RoleBinding(num_words=3).sample(2000, generator())
    assert (roles > 0).double().mean(0).sub(0.5).abs().max() < 0.05
    assert all(targets[:, role].unique().numel() == 3 for role in range(8))


def test_the_same_seed_gives_the_same_inputs():
    first, again, other = (binding.RoleBinding().sample(20, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.inputs[0], again.inputs[0]) and torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs[0], other.inputs[0])


@pytest.mark.parametrize(
    "size, message",
    [({"num_words": 1}, "num_words must be at least 2, got 1"), ({"length": 7}, "length must be at least 8, got 7")],
)
def test_sizes_that_do_not_fit_get_a_sentence(size, message):
    with pytest.raises(ValueError, match=message):
        binding.RoleBinding(**size)


@pytest.mark.parametrize("experiment", [binding, languages])
def test_all_numbers_of_heads_have_the_same_parameters(experiment):
    def parameters(heads):
        model = experiment.trained_model(heads, steps=1, seed=0)
        return sum(parameter.numel() for parameter in model.parameters())

    assert len({parameters(heads) for heads in experiment.SETTINGS["heads"] if heads}) == 1


def test_without_attention_exchanging_the_roles_changes_nothing():
    (words, roles), _ = binding.RoleBinding().sample(4, generator())
    exchanged = torch.where(roles > 0, 9 - roles, 0)
    for heads, blind in ((None, True), (4, False)):
        torch.manual_seed(0)
        reader = binding.RoleReader(16, 32, heads).double()
        assert torch.allclose(reader(words, roles), reader(words, exchanged)) == blind


def test_focus_is_one_where_each_role_has_a_head_of_its_own():
    (words, roles), targets = binding.RoleBinding().sample(8, generator())

    class Seer:
        def brought(self, words, roles, need_weights):
            heads = [(roles == role).double() for role in range(1, 9)]
            return AttentionOutput(None, torch.stack(heads, dim=1)[:, :, None])

    assert binding.focus(Seer(), Batch((words, roles), targets)) == 1


def test_focus_of_a_single_head_is_at_most_an_eighth():
    batch = binding.RoleBinding().sample(64, generator())
    assert 0 < binding.focus(binding.trained_model(1, 30, 0), batch) <= 1 / 8 + 1e-6


def test_a_run_has_a_row_for_each_length(monkeypatch):
    monkeypatch.setitem(binding.SETTINGS, "test_samples", 16)
    rows = binding.run(2, steps=2, seed=0)
    assert [row["length_factor"] for row in rows] == binding.SETTINGS["length_factors"]
    assert all(row["chance"] == 1 / 16 and 0 <= row["accuracy"] <= 1 for row in rows)
    assert [row["focus"] is None for row in rows] == [row["length_factor"] > 1 for row in rows]
    assert all(row["focus"] is None for row in binding.run(None, steps=2, seed=0))


def test_steps_until_are_the_shortest_training_that_is_enough_and_infinite_where_none_is():
    rows = []
    for seed in range(8):
        for steps in (250, 500, 1000):
            for heads, enough in ((None, 0), (1, 1000 if seed < 4 else math.inf), (8, 500 if seed else 250)):
                for factor, right in ((1, 0.995 if steps >= enough else 0.5), (8, 1.0)):
                    rows.append(
                        {"heads": heads, "steps": steps, "seed": seed, "length_factor": factor, "accuracy": right}
                    )
    until = binding.steps_until(pd.DataFrame(rows))
    assert set(until) == {1, 8}
    assert until[8] == (500, 250, 500, 8)
    assert until[1] == (1000, 1000, math.inf, 8)


# Names of languages, places, scripts and currencies


SPLITS = languages.Splits._fields


@pytest.mark.parametrize("one, other", list(itertools.combinations(SPLITS, 2)))
def test_no_name_and_no_concept_is_in_two_splits(one, other):
    one, other = (getattr(languages.names(), split) for split in (one, other))
    assert not {name for name, _ in one} & {name for name, _ in other}
    german = Locale.parse("de").territories
    there = {code for code, name in german.items() if (name, languages.LANGUAGES.index("de")) in other}
    assert there
    for language in ("fr", "pl", "tr"):
        number, places = languages.LANGUAGES.index(language), Locale.parse(language).territories
        assert not {code for code in there if (places[code], number) in one}


def test_every_name_belongs_to_one_language():
    everything = [name for split in languages.names() for name, _ in split]
    assert len(everything) == len(set(everything))
    assert max(map(len, everything)) <= languages.SETTINGS["longest_name"]


@pytest.mark.parametrize("split, share", [("test", 0.2), ("validation", 0.1)])
def test_a_split_has_its_share_and_every_language(split, share):
    chosen = getattr(languages.names(), split)
    assert len(chosen) / sum(map(len, languages.names())) == pytest.approx(share, abs=0.03)
    assert {language for _, language in chosen} == set(range(len(languages.LANGUAGES)))


def test_unknown_characters_and_padding_have_numbers_of_their_own():
    (characters,), numbers = languages.encode([("Aland", 3), ("☃", 5)])
    assert characters[1].tolist() == [languages.UNKNOWN, *[languages.PADDING] * 4]
    assert min(characters[0]) > languages.UNKNOWN and numbers.tolist() == [3, 5]


def test_a_training_batch_is_cut_to_its_longest_name():
    (characters,), numbers = languages.training_batch(generator())
    assert len(characters) == len(numbers) == languages.SETTINGS["batch_size"]
    assert (characters != languages.PADDING).any(0).all()


def test_long_test_inputs_are_names_of_one_language_with_spaces_between():
    inputs = [row for batch in languages.inputs("test", 4) for row in zip(*batch.inputs, batch.targets, strict=True)]
    assert len(inputs) == languages.SETTINGS["rows_of_names"]["test"]
    letters = {number: character for character, number in languages.alphabet().items()}
    of_language = {}
    for name, language in languages.names().test:
        of_language.setdefault(language, set()).add(name)
    text = "".join(letters.get(number, "?") for number in inputs[0][0].tolist() if number != languages.PADDING)
    assert any(text.startswith(name + " ") for name in of_language[inputs[0][1].item()])


def test_without_attention_nothing_comes_from_other_characters():
    model = languages.trained_model(None, steps=1, seed=0)
    assert model.layers[0].attention(torch.ones(2, 3, 64)).values.eq(0).all()
    assert languages.trained_model(2, steps=1, seed=0).layers[0].attention.num_heads == 2


@pytest.fixture
def few_inputs(monkeypatch):
    real = languages.inputs
    monkeypatch.setattr(languages, "inputs", lambda split, factor: real(split, factor)[:1])


def test_the_validation_names_choose_the_checkpoint_and_the_test_names_are_looked_at_once(few_inputs, monkeypatch):
    monkeypatch.setitem(languages.SETTINGS, "checkpoints", [1, 2, 3])
    shares, asked = {1: 0.3, 2: 0.5, 3: 0.4}, []

    def measured(model, split):
        asked.append((split, {name: tensor.clone() for name, tensor in model.state_dict().items()}))
        return [{"length_factor": 1, "accuracy": shares[len(asked)] if split == "validation" else 0.6, "chance": 0.1}]

    monkeypatch.setattr(languages, "measured", measured)
    rows = languages.run(1, steps=3, seed=0)
    assert [split for split, _ in asked] == ["validation"] * 3 + ["test"]
    assert [(row["split"], row["checkpoint"]) for row in rows] == [
        *(("validation", checkpoint) for checkpoint in (1, 2, 3)),
        ("test", 2),
    ]
    chosen, last, tested = asked[1][1], asked[2][1], asked[3][1]
    assert all(torch.equal(chosen[name], tested[name]) for name in chosen)
    assert not all(torch.equal(last[name], tested[name]) for name in last)


def test_a_run_on_names_has_a_row_for_each_checkpoint_and_number_of_names(few_inputs, monkeypatch):
    monkeypatch.setitem(languages.SETTINGS, "checkpoints", [2, 4])
    rows = languages.run(2, steps=4, seed=0)
    assert [row["length_factor"] for row in rows] == 3 * languages.SETTINGS["length_factors"]
    assert all(0 <= row["accuracy"] <= 1 and row["chance"] < 0.2 and row["parameters"] > 1000 for row in rows)


@pytest.mark.parametrize("heads, text", [(None, "no attention"), (1, "1 head"), (8, "8 heads")])
def test_numbers_of_heads_have_a_name(heads, text):
    assert binding.heads_text(heads) == text
