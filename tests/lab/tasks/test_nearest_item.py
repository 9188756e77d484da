"""The task of the nearest item: exact answers, the same data for a seed, and a chance that falls with length."""

import pytest
import torch

from attn_core.lab.tasks import NOTHING
from attn_core.lab.tasks.nearest_item import NearestItem

TASK = NearestItem()


def sample(length, seed=0, batch_size=200, task=TASK):
    (tokens,), targets = task.sample(batch_size, torch.Generator().manual_seed(seed), length)
    return tokens, targets


def answer_by_looking(tokens, place):
    """The slow way: every item with its distance, and those that stand nearest."""
    if tokens[place]:
        return NOTHING
    distances = [(abs(other - place), kind - 1) for other, kind in enumerate(tokens) if kind]
    nearest = {kind for distance, kind in distances if distance == min(distances)[0]}
    return nearest.pop() if len(nearest) == 1 else NOTHING


@pytest.mark.parametrize("length", [2, 3, 8, 33, 64])
@pytest.mark.parametrize("task", [TASK, NearestItem(2, 0.6), NearestItem(3, 0.02)], ids=["usual", "dense", "sparse"])
def test_answers_are_those_of_a_search_through_all_items(task, length):
    tokens, targets = sample(length, task=task, batch_size=60)
    expected = [[answer_by_looking(row, place) for place in range(length)] for row in tokens.tolist()]
    assert targets.tolist() == expected


@pytest.mark.parametrize(
    "tokens, targets",
    [
        ([0, 2, 0, 0, 0, 1, 0, 0], [1, NOTHING, 1, NOTHING, 0, NOTHING, 0, 0]),
        ([2, 0, 2, 0, 1, 0, 1], [NOTHING, 1, NOTHING, NOTHING, NOTHING, 0, NOTHING]),  # alike on both sides: asked
        ([0, 0, 3], [2, 2, NOTHING]),
        ([1, 1], [NOTHING, NOTHING]),
    ],
)
def test_gaps_are_asked_unless_two_different_items_are_equally_near(tokens, targets):
    assert TASK.answers(torch.tensor([tokens])).tolist() == [targets]


@pytest.mark.parametrize("length", [2, 8, 32])
def test_every_sample_has_an_item_and_tokens_and_targets_are_in_range(length):
    tokens, targets = sample(length, batch_size=2000, task=NearestItem(density=0.01))
    assert tokens.shape == targets.shape == (2000, length)
    assert tokens.dtype == targets.dtype == torch.int64
    assert (tokens > 0).any(1).all()
    assert tokens.min() == 0 and tokens.max() == TASK.num_kinds == TASK.vocabulary_size - 1
    assert set(targets.unique().tolist()) == {NOTHING, *range(TASK.num_kinds)}


def test_items_fill_their_share_of_the_places_at_every_length():
    for length in (32, 256):
        tokens, _ = sample(length, batch_size=1000)
        assert (tokens > 0).double().mean().item() == pytest.approx(0.2, abs=0.03)


def test_the_same_seed_gives_the_same_data_and_another_one_does_not():
    assert all(torch.equal(one, two) for one, two in zip(sample(32, 5), sample(32, 5), strict=True))
    assert not torch.equal(sample(32, 5)[0], sample(32, 6)[0])


def test_sampling_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    sample(32)
    TASK.chance(32, samples=10)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: NearestItem(1), "num_kinds must be at least 2, got 1"),
        (lambda: NearestItem(density=0), "density must lie between 0 and 1, got 0"),
        (lambda: NearestItem(density=1.0), "density must lie between 0 and 1, got 1.0"),
        (lambda: NearestItem(density=float("nan")), "density must lie between 0 and 1, got nan"),
        (lambda: sample(1), "length must be at least 2, got 1"),
        (lambda: sample(8, batch_size=0), "batch_size must be at least 1, got 0"),
    ],
)
def test_sizes_that_make_no_sense_get_a_sentence(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("length", [8, 32, 128])
def test_chance_is_what_the_most_frequent_item_of_each_input_gets(length):
    tokens, targets = sample(length, batch_size=1000)  # the seed that chance takes
    right = asked = 0
    for row, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        items = [token for token in row if token]
        guess = min(set(items), key=lambda kind: (-items.count(kind), kind)) - 1
        right += sum(answer == guess for answer in answers)
        asked += sum(answer != NOTHING for answer in answers)
    assert TASK.chance(length) == pytest.approx(right / asked)


def test_chance_falls_with_length_to_that_of_a_blind_guess():
    levels = [TASK.chance(length) for length in (4, 8, 16, 32, 64, 128, 256)]
    assert levels == sorted(levels, reverse=True)
    assert 1 / TASK.num_kinds < levels[-1] < 0.25 < 0.8 < levels[0]
