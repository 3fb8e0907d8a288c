# SPDX-License-Identifier: Apache-2.0
"""The comparison with other libraries runs, with tiny states. Its figures are not
checked."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench/peers.py"
VALUES = {
    "save_seconds", "blocking_seconds", "save_cpu_seconds", "save_peak_bytes",
    "written_bytes", "state_bytes", "load_seconds", "load_cpu_seconds",
    "load_peak_bytes",
}  # fmt: skip


def compare(folder, *args):
    """What the program prints, and its JSON."""
    path = folder / "out.json"
    command = [sys.executable, PROGRAM, "--dir", folder, "--json", path, *args]
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=900
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, json.loads(path.read_text())


@pytest.mark.parametrize(
    "optimizer, dense_gb, repetitions", [("rowwise", [], 2), ("full", [0.001], 1)]
)
def test_saves_only_the_changed_rows(tmp_path, optimizer, dense_gb, repetitions):
    pytest.importorskip("numpy")
    sizes = ["--dense-gb", *dense_gb, "--rows", 20_000, "--optimizer", optimizer]
    sizes += ["--repetitions", repetitions]
    printed, report = compare(tmp_path, *sizes, "--peers", "numpy", "ckptdb")
    assert report["missing"] == {}
    rows = 20_000 * 4 * (32 if optimizer == "full" else 17)
    expected = ([1_000_000] if dense_gb else []) + [rows, rows]
    cases = list(report["cases"].values())
    assert len(cases) == len(expected)
    for case, size in zip(cases, expected):
        assert set(case) == {"numpy", "ckptdb"}
        for peer in case.values():
            assert [set(run) for run in peer["runs"]] == [VALUES] * repetitions
            assert set(peer["medians"]) == VALUES
            assert peer["medians"]["state_bytes"] == size
        assert size < case["numpy"]["medians"]["written_bytes"] < 1.1 * size
    assert cases[-1]["ckptdb"]["medians"]["written_bytes"] < 0.2 * rows
    for name in ("ckptdb", "numpy"):
        assert printed.count(f"\n| {name} |") == len(expected)
    assert not list(tmp_path.glob("peers-*"))


def test_each_peer_runs_or_is_missing(tmp_path):
    pytest.importorskip("torch")
    sizes = ["--dense-gb", 0.001, "--rows", 1000, "--repetitions", 1]
    printed, report = compare(tmp_path, *sizes)
    measured = {name: set(case) for name, case in report["cases"].items()}
    assert len(measured) == 3
    for name, peers in measured.items():
        assert peers | set(report["missing"]) >= {"ckptdb", "numpy", "torch.save"}
        assert len(peers | set(report["missing"])) == 10, name
    for peer in report["missing"]:
        assert f"Missing: {peer}, because " in printed


def test_a_peer_that_is_not_installed_is_named(tmp_path):
    pytest.importorskip("numpy")
    code = (
        "import runpy, sys, importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda n: None if n == 'safetensors' else find(n); "
        f"sys.path.insert(0, {str(PROGRAM.parent)!r}); "
        f"sys.argv[0] = {str(PROGRAM)!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    args = ["--dir", tmp_path, "--dense-gb", 0.001, "--rows", 0, "--repetitions", 1]
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            *map(str, args),
            "--peers",
            "numpy",
            "safetensors",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "Missing: safetensors, because safetensors" in result.stdout


def test_a_flipped_bit_is_found_or_loaded(tmp_path):
    pytest.importorskip("numpy")
    command = [sys.executable, PROGRAM, "--flip-bit", "--dir", tmp_path]
    command += ["--peers", "numpy", "ckptdb"]
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    numpy, ckptdb = result.stdout.splitlines()
    assert numpy == "numpy: loaded wrong values"
    assert ckptdb.startswith("ckptdb: refused: ")
    assert 'tensor "layer.0"' in ckptdb
