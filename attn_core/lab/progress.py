"""Progress bars for a terminal and for a notebook."""

import os
from collections.abc import Iterable
from multiprocessing import parent_process

from tqdm.auto import tqdm
from tqdm.notebook import tqdm_notebook


def progress(iterable: Iterable, **options) -> tqdm:
    """tqdm's bar, which goes away at the end, also from a notebook that is saved afterwards.

    None where TQDM_DISABLE is set, which tqdm overlooks in notebooks, and none in the processes of a pool, which would
    write over one another.
    """
    silent = bool(os.environ.get("TQDM_DISABLE")) or parent_process() is not None
    return _Bar(iterable, leave=False, disable=silent, **options)


class _Bar(tqdm):
    # In a notebook tqdm closes its widget at the end, and the output keeps its name: a notebook that was saved and is
    # opened again would say "0%", or that the widget cannot be shown. So what was displayed is replaced by nothing.
    _shown = None

    def __init__(self, *args, **options):
        if not issubclass(tqdm, tqdm_notebook):
            super().__init__(*args, **options)
            return
        from IPython.display import display

        super().__init__(*args, display=False, **options)
        if not self.disable:
            self._shown = display(self.container, display_id=True)

    def close(self) -> None:
        super().close()
        if self._shown is not None:
            self._shown.update({"text/plain": ""}, raw=True)
            self._shown = None
