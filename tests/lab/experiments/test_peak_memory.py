"""Peak memory, read from Linux: what is measured is what a call adds."""

import subprocess
import sys
import time

import psutil
import pytest

from attn_core.lab.experiments import peak_memory

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from Linux")


@linux_only
def test_a_call_that_makes_an_array_adds_its_size():
    # In a process of its own: here memory that other tests have freed might be used again.
    code = "import torch; from attn_core.lab.experiments.peak_memory import peak_megabytes as peak\n"
    code += "print(peak(lambda: torch.ones(25_000_000)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 95 < float(told) < 130


@linux_only
def test_weights_kept_need_at_least_their_own_size_and_blocks_a_twentieth_of_it():
    kept = peak_memory.run("weights kept", 8192, 0)
    blocks = peak_memory.run("in blocks", 8192, 0)
    assert kept["megabytes"] >= kept["megabytes_of_weights"] == pytest.approx(4 * 8192**2 / 1e6, abs=0.1)
    assert blocks["megabytes"] < blocks["megabytes_of_weights"] / 10


@linux_only
def test_a_measurement_that_is_killed_leaves_no_process_behind():
    code = "from attn_core.lab.experiments import peak_memory\npeak_memory.run('weights kept', 1024, 0)"
    parent = psutil.Process(subprocess.Popen([sys.executable, "-c", code]).pid)
    until = time.monotonic() + 60
    while not (measuring := [child for child in parent.children() if "spawn_main" in " ".join(child.cmdline())]):
        assert parent.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until
        time.sleep(0.02)
    parent.kill()
    assert psutil.wait_procs(measuring, timeout=60)[1] == []


def test_another_system_gets_a_sentence(monkeypatch):
    monkeypatch.setattr(peak_memory.sys, "platform", "win32")
    with pytest.raises(RuntimeError, match="read from Linux, and this is win32"):
        peak_memory.peak_megabytes(lambda: None)


def test_an_unknown_path_gets_a_sentence():
    with pytest.raises(ValueError, match="path must be one of weights kept, fused, in blocks, got 'flash'"):
        peak_memory.peak_of_attention("flash", 64, 0)
