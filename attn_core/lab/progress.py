"""Progress bars for a terminal and for a notebook."""

import os
from collections.abc import Iterable

from tqdm.auto import tqdm


def progress(iterable: Iterable, **options) -> tqdm:
    """tqdm's bar, which goes away at the end; none where TQDM_DISABLE is set, which tqdm overlooks in notebooks."""
    return tqdm(iterable, leave=False, disable=bool(os.environ.get("TQDM_DISABLE")), **options)
