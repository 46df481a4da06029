"""`tunableop doctor --cache`: files of results that are of use, and others, each with the one remedy."""

from __future__ import annotations

import copy
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnxruntime_ep_tunableop.doctor import Asked, cache, clocks, examine
from support.doctor import Document, check_whole, named, only_problem, problems
from support.results import MODEL, entries, learned, write


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(clocks, "WARM_SECONDS", 0.0)


@pytest.fixture(scope="module")
def results() -> Document:
    """Three problems (m = 1, 2, 3), measured here."""
    return learned()


def look(path: Path, **asked: Any) -> Document:
    document = examine(Asked(cache=path, device="cpu", **asked)).document()
    check_whole(document)
    return document


def with_model(path: Path, m: int) -> Document:
    """With the model that the results are of, run with one size."""
    model = path.parent / "model.onnx"
    onnx.save(MODEL, str(model))
    return look(path, model=model, shapes=[{"A": [m, 8]}])


def test_a_file_that_is_used(tmp_path: Path, results: Document) -> None:
    path = write(tmp_path / "r.json", results)
    before = path.read_bytes()
    document = with_model(path, 2)
    assert problems(document) == []
    assert all(check["verdict"] == "ok" for check in document["checks"] if check["name"].startswith("cache."))
    assert named(document, "cache.machine")["evidence"][0] == "3 entries can be used here"
    assert named(document, "cache.hit")["evidence"] == ["of the model's problems 1 are in it, 0 not"]
    assert document["cache"]["entries"] == 3
    assert document["cache"]["machines"][0]["fingerprint"] == document["cache"]["here"]
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.onnx", "r.json"]


def test_a_model_whose_shapes_are_not_in_it(tmp_path: Path, results: Document) -> None:
    path = write(tmp_path / "r.json", results)
    check = only_problem(with_model(path, 40), "cache.hit")
    assert check["remedy"] == f"tunableop tune MODEL --cache {path} --shape A:40x8"
    assert check["evidence"][1].startswith("not in it: M=40,N=5,K=8,fp32")


def test_sizes_that_were_not_given_are_no_problem_of_the_file(tmp_path: Path, results: Document) -> None:
    """Only the sizes of real use tell whether it is of use; 1, which is run instead, need not be in it."""
    told = copy.deepcopy(results)
    told["machines"][0]["entries"] = [entry for entry in entries(told) if entry["m"] != 1]
    path = write(tmp_path / "r.json", told)
    onnx.save(MODEL, str(tmp_path / "model.onnx"))
    document = look(path, model=tmp_path / "model.onnx")
    assert problems(document) == []
    check = named(document, "cache.hit")
    assert (check["verdict"], check["remedy"]) == ("warning", "--dim m=1 (with the sizes of real use)")
    assert check["evidence"][0] == "of the model's problems 0 are in it, 1 not"
    assert "taken as 1" in check["evidence"][1]
    check = only_problem(look(path, model=tmp_path / "model.onnx", dims={"m": 1}), "cache.hit")
    assert check["remedy"] == f"tunableop tune MODEL --cache {path} --dim m=1"


def test_products_that_the_file_leaves_to_the_stock_provider(tmp_path: Path, results: Document) -> None:
    """Measured so: it is off, and that is no mistake."""
    told = copy.deepcopy(results)
    node = {"op": "MatMul", "name": "node", "k": 8, "n": 5, "uses": 1000}
    times = {"ours_ms": 4.0, "stock_ms": 1.0, "stock": True, "measured_at": 1750000000}
    told["machines"][0]["nodes"] = [node | times]
    document = with_model(write(tmp_path / "r.json", told), 2)
    assert problems(document) == []
    check = named(document, "model.nodes")
    assert check["verdict"] == "note"
    assert check["evidence"] == [
        "0 of 1 MatMul and Gemm nodes are claimed: measured, and left to the stock provider",
        "1 refused: the stock provider is faster here: MatMul 'node'",
    ]
    assert check["remedy"].startswith("--option claim=all")


def test_no_file(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    document = look(path)
    assert problems(document) == []
    check = named(document, "cache.file")
    assert (check["verdict"], check["remedy"]) == ("warning", f"tunableop tune MODEL --cache {path}")
    assert not path.exists()
    never_measured = look(path, options={"tuning": "cached"})
    assert only_problem(never_measured, "cache.file")["remedy"] == check["remedy"]


def test_no_folder(tmp_path: Path) -> None:
    check = only_problem(look(tmp_path / "none" / "r.json"), "cache.file")
    assert check["remedy"] == f"mkdir -p {tmp_path}/none"


@pytest.mark.parametrize("content", ['{"schema": 2, "machines": [', "", "\0\0\0", "[]"])
def test_a_damaged_file(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "r.json", content)
    check = only_problem(look(path), "cache.file")
    assert check["remedy"] == f"mv {path} {path}.damaged"
    assert check["evidence"][0].endswith("; document ignored")
    assert path.read_text() == content


def test_a_file_of_a_newer_release(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", {"schema": 3, "machines": []})
    assert only_problem(look(path), "cache.file")["remedy"] == "pip install -U onnxruntime-ep-tunableop"


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    check = only_problem(look(tmp_path), "cache.file")
    assert check["remedy"] == f"--cache {tmp_path}/tune.json"
    assert "Is a directory" in check["evidence"][0]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader's own words: as root, as which tests may run, every file can be read."""
    path = write(tmp_path / "r.json", "")
    line = f"{path}: cannot open: Permission denied; document ignored"
    monkeypatch.setattr(tunableop._control, "load_cache", lambda _session, _path: [line])
    assert only_problem(look(path), "cache.file")["remedy"] == f"chmod u+rw {path}"


def test_entries_that_are_damaged(tmp_path: Path, results: Document) -> None:
    broken = copy.deepcopy(results)
    entries(broken)[1]["m"] = "many"
    path = write(tmp_path / "r.json", broken)
    document = look(path)
    assert problems(document) == []
    check = named(document, "cache.file")
    assert (check["verdict"], check["remedy"]) == ("warning", f"tunableop cache validate {path}")
    assert "machines[0].entries[1].m: expected an integer" in check["evidence"][0]


def test_a_file_of_another_machine(tmp_path: Path, results: Document) -> None:
    other = copy.deepcopy(results)
    other["machines"][0]["fingerprint"] |= {"model": "AMD EPYC 9R14", "cores": 192}
    path = write(tmp_path / "r.json", other)
    document = with_model(path, 2)
    check = only_problem(document, "cache.machine")
    assert check["remedy"] == f"tunableop tune MODEL --cache {path}"
    assert check["evidence"][0] == "it holds nothing of this machine"
    assert "cores: expected" in check["evidence"][1]
    assert any(
        "another machine: device cpu, model AMD EPYC 9R14, cores 192: 3 entries" in line
        for line in check["evidence"]
    )
    assert "cache.hit" not in [check["name"] for check in document["checks"]]  # one cause, one problem


def test_sections_of_other_machines_beside_ours(tmp_path: Path, results: Document) -> None:
    both = copy.deepcopy(results)
    both["machines"] += copy.deepcopy(results["machines"])
    both["machines"][1]["fingerprint"]["cores"] = 192
    document = look(write(tmp_path / "r.json", both))
    assert problems(document) == []
    assert named(document, "cache.machine")["verdict"] == "ok"


@pytest.mark.parametrize(("count", "verdict"), [(3, "problem"), (1, "warning")])
def test_entries_of_another_version_of_a_library(
    tmp_path: Path, results: Document, count: int, verdict: str
) -> None:
    old = copy.deepcopy(results)
    for entry in entries(old)[:count]:
        entry["library_identity"] = "0.0.1+old"
    path = write(tmp_path / "r.json", old)
    document = look(path)
    check = named(document, "cache.machine")
    assert (check["verdict"], check["remedy"]) == (verdict, f"tunableop tune MODEL --cache {path}")
    assert "found '0.0.1+old'" in check["evidence"][0]
    assert problems(document) == (["cache.machine"] if verdict == "problem" else [])


def test_a_folder_that_may_not_be_written_to(
    tmp_path: Path, results: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "r.json", results)
    real = os.access
    monkeypatch.setattr(os, "access", lambda file, mode: Path(file) != tmp_path and real(file, mode))
    check = only_problem(look(path), "cache.writable")
    assert check["remedy"] == f"chmod u+wx {tmp_path}"
    assert problems(look(path, options={"tuning": "cached"})) == []  # which never saves


def test_somebody_elses_lock(tmp_path: Path, results: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "r.json", results)
    (tmp_path / "r.json.lock").touch()
    real = os.access
    monkeypatch.setattr(os, "access", lambda file, mode: Path(file).suffix != ".lock" and real(file, mode))
    check = only_problem(look(path), "cache.writable")
    assert check["remedy"] == f"sudo chmod a+rw {path}.lock"


def test_a_lock_that_is_held(tmp_path: Path, results: Document) -> None:
    path = write(tmp_path / "r.json", results)
    lock = tmp_path / "r.json.lock"
    lock.touch()
    assert named(look(path), "cache.writable")["verdict"] == "ok"  # it stays behind, held by nobody
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        document = look(path)
    assert problems(document) == []
    check = named(document, "cache.writable")
    assert check["verdict"] == "warning"
    assert f"is held by process {os.getpid()}" in check["evidence"][0]


def test_what_lies_beside_it(tmp_path: Path, results: Document) -> None:
    path = write(tmp_path / "r.json", results)
    for name in ("r.json.bad", "r.json.bad.2", "other.json.bad"):
        (tmp_path / name).touch()
    check = named(look(path), "cache.leftovers")
    assert check["verdict"] == "note"
    assert check["remedy"] == f"look at what is missing, then: rm {path}.bad {path}.bad.2"


def test_a_journal_that_says_nothing(tmp_path: Path, results: Document) -> None:
    path = write(tmp_path / "r.json", results)
    (tmp_path / "r.json.trying.99999999.0").write_bytes(b"damaged")
    check = named(look(path), "cache.leftovers")
    assert check["verdict"] == "ok"


def test_the_journal_of_a_dead_process(
    tmp_path: Path, results: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "r.json", results)
    (tmp_path / "r.json.trying.4711.0").touch()
    call = {"library": "native", "kernel": "avx2:4x16", "problem": "M=1"}
    monkeypatch.setattr(cache._core, "watch_journal", lambda _cache, _pid: None)
    monkeypatch.setattr(cache._core, "last_call", lambda _cache, pid: call if pid == 4711 else None)
    check = named(look(path), "cache.leftovers")
    assert check["verdict"] == "note"
    assert "a process ended in native:avx2:4x16 (M=1)" in check["evidence"][0]


@pytest.mark.parametrize(
    "break_it",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("}", "", 1),
        lambda text: text.replace('"entries"', '"entrys"'),
        lambda text: text.replace('"fingerprint"', '"finger"'),
        lambda text: text.replace('"machines": [', '"machines": [7, '),
        lambda text: json.dumps({"schema": 2, "producer": "x", "machines": {}}),
    ],
)
def test_whatever_it_holds_the_doctor_answers(
    tmp_path: Path, results: Document, break_it: Callable[[str], str]
) -> None:
    document = look(write(tmp_path / "r.json", break_it(json.dumps(results))))
    assert not any("the check itself failed" in line for c in document["checks"] for line in c["evidence"])
    assert named(document, "cache.file")["verdict"] in ("problem", "warning")
