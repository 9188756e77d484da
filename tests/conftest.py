"""What the tests of the core use by name."""

import pytest


@pytest.fixture
def same_numbers_in_every_run():
    import torch  # only here: it takes seconds, and not every test needs it

    torch.manual_seed(0)
