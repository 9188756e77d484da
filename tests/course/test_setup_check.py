"""The line of the first cell that says whether the installed versions are those of the lock."""

from importlib import metadata

import pytest

from attn_core.course import print_version_differences, setup, versions_unlike_lock

NUMPY = metadata.version("numpy")


@pytest.fixture
def write_lock(tmp_path):
    def write(text, environment=None):
        (tmp_path / "requirements.lock").write_text(text, encoding="utf-8")
        if environment is not None:
            (tmp_path / "environment.yml").write_text(environment, encoding="utf-8")
        return tmp_path / "requirements.lock"

    return write


def test_a_version_as_in_the_lock_is_not_named(write_lock):
    assert versions_unlike_lock(write_lock(f"numpy=={NUMPY}\n")) == []


def test_a_version_unlike_the_lock_is_named_with_both(write_lock):
    assert versions_unlike_lock(write_lock("numpy==1.2.3\n")) == [f"numpy {NUMPY} (lock: 1.2.3)"]


def test_only_the_lines_for_this_platform_count(write_lock):
    lock = write_lock(f"numpy==1.2.3 ; sys_platform == 'elsewhere'\nnumpy=={NUMPY} ; sys_platform != 'elsewhere'\n")
    assert versions_unlike_lock(lock) == []


def test_a_package_that_is_not_installed_is_not_named(write_lock):
    assert versions_unlike_lock(write_lock("no-such-package-here==1.0\n")) == []


def test_a_name_is_found_however_it_is_spelt(write_lock):
    for name in ("pytest_benchmark_none", "Jupyter.Client", "jupyter_client", "JUPYTER-CLIENT"):
        found = versions_unlike_lock(write_lock(f"{name}==0.0.1\n"))
        assert len(found) == (0 if "none" in name else 1), name


def test_trailing_zeros_make_no_other_version(write_lock):
    assert versions_unlike_lock(write_lock(f"numpy=={NUMPY}.0\n")) == []


@pytest.mark.parametrize("installed", ["2.13.0", "2.13.0+cpu", "2.13.0+cu128"])
def test_torch_is_compared_without_its_build(write_lock, monkeypatch, installed):
    monkeypatch.setattr(setup.metadata, "version", lambda name: installed)
    environment = "dependencies:\n  - pip:\n      - torch=={}\n      - -r requirements.lock\n"
    assert versions_unlike_lock(write_lock("", environment.format("2.13.0"))) == []
    assert versions_unlike_lock(write_lock("", environment.format("2.12.1"))) == [f"torch {installed} (lock: 2.12.1)"]


def test_nothing_is_printed_where_nothing_differs(write_lock, monkeypatch, capsys):
    monkeypatch.setattr(setup, "LOCK", write_lock(f"numpy=={NUMPY}\n"))
    print_version_differences()
    assert capsys.readouterr() == ("", "")


def test_nothing_is_printed_where_there_is_no_lock(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(setup, "LOCK", tmp_path / "requirements.lock")
    print_version_differences()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("count, ending", [(8, ""), (9, " and 1 more"), (20, " and 12 more")])
def test_one_line_names_at_most_eight_packages(write_lock, monkeypatch, capsys, count, ending):
    monkeypatch.setattr(setup.metadata, "version", lambda name: "2.0")
    monkeypatch.setattr(setup, "LOCK", write_lock("".join(f"package-{i}==1.0\n" for i in range(count))))
    print_version_differences()
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.count("(lock: 1.0)") == 8
    assert f"(lock: 1.0){ending}. " in out
