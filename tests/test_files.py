"""Files are written whole or not at all."""

import pytest

from attn_core import _files
from attn_core._files import replacing


def test_what_is_written_takes_the_place_of_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("broken", ["writing", "replacing"])
def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch, broken):
    def fail(*_):
        raise OSError("disk full")

    path = tmp_path / "file"
    path.write_text("old")
    if broken == "replacing":
        monkeypatch.setattr(_files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"), replacing(path) as part:
        part.write_text("half")
        if broken == "writing":
            fail()
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


def test_two_that_write_the_same_file_at_once_do_not_meet(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as one:
        one.write_text("one")
        with replacing(path) as two:
            two.write_text("two")
        assert path.read_text() == "two"
    assert path.read_text() == "one"
