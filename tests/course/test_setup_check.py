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


@pytest.mark.parametrize(
    "lock, named",
    [
        (f"numpy=={NUMPY}\n", []),
        (f"numpy=={NUMPY}.0\n", []),
        ("numpy==1.2.3\n", [f"numpy {NUMPY} (lock: 1.2.3)"]),
        # Only the lines for this platform count, and only what is installed.
        (f"numpy==1.2.3 ; sys_platform == 'elsewhere'\nnumpy=={NUMPY} ; sys_platform != 'elsewhere'\n", []),
        ("no-such-package-here==1.0\n", []),
        ("NumPy==1.2.3\n", [f"NumPy {NUMPY} (lock: 1.2.3)"]),
    ],
)
def test_a_version_unlike_that_of_the_lock_is_named_with_both(write_lock, lock, named):
    assert versions_unlike_lock(write_lock(lock)) == named


@pytest.mark.parametrize("name", ["Jupyter.Client", "jupyter_client", "JUPYTER-CLIENT"])
def test_a_name_is_found_however_it_is_spelt(write_lock, name):
    assert len(versions_unlike_lock(write_lock(f"{name}==0.0.1\n"))) == 1


@pytest.mark.parametrize("installed", ["2.13.0", "2.13.0+cpu", "2.13.0+cu128"])
def test_torch_is_compared_without_its_build(write_lock, monkeypatch, installed):
    monkeypatch.setattr(setup.metadata, "version", lambda name: installed)
    environment = "dependencies:\n  - pip:\n      - torch=={}\n      - -r requirements.lock\n"
    assert versions_unlike_lock(write_lock("", environment.format("2.13.0"))) == []
    assert versions_unlike_lock(write_lock("", environment.format("2.12.1"))) == [f"torch {installed} (lock: 2.12.1)"]


def test_nothing_is_printed_where_nothing_differs_or_there_is_no_lock(write_lock, tmp_path, monkeypatch, capsys):
    for lock in (write_lock(f"numpy=={NUMPY}\n"), tmp_path / "none.lock"):
        monkeypatch.setattr(setup, "LOCK", lock)
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
