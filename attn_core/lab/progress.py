"""Progress bars for a terminal and for a notebook."""

import os
from collections.abc import Iterable
from multiprocessing import parent_process

from tqdm.auto import tqdm


def progress(iterable: Iterable, **options) -> tqdm:
    """tqdm's bar, which goes away at the end.

    None where TQDM_DISABLE is set, which tqdm overlooks in notebooks, and none in the processes of a pool, which would
    write over one another.
    """
    silent = bool(os.environ.get("TQDM_DISABLE")) or parent_process() is not None
    return tqdm(iterable, leave=False, disable=silent, **options)
