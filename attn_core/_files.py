"""The one way in which the course writes a file that it must not leave half written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file to write, which takes the place of `path` at the end: whole or not at all.

    Its name is its own, so that two processes that write the same file do not meet.
    """
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
