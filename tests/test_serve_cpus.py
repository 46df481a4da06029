"""Threads for a container: quotas and processors as the kernel tells of them, in made-up trees of files."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort
import pytest
from onnxruntime_ep_tunableop.serve import model as serve_model
from onnxruntime_ep_tunableop.serve.cpus import thread_limit
from onnxruntime_ep_tunableop.serve.model import Model
from onnxruntime_ep_tunableop.serve.settings import ModelSettings
from support.graphs import matmul_model

HOST = set(range(64))


def machine(root: Path, groups: str, files: dict[str, str] | None = None, threads_per_core: int = 1) -> Path:
    """64 processors, of which `threads_per_core` neighbours are one core; the control groups' `files`."""
    cpus = root / "sys/devices/system/cpu"
    for number in HOST:
        topology = cpus / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        first = number - number % threads_per_core
        (topology / "thread_siblings_list").write_text(f"{first}-{first + threads_per_core - 1}\n")
    (cpus / "online").write_text("0-63\n")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in (files or {}).items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


V2 = "0::/\n"
V1 = "9:name=systemd:/docker/7\n4:memory:/docker/7\n3:cpu,cpuacct:/docker/7\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        (V2, {"cpu.max": "200000 100000"}, 2),
        (V2, {"cpu.max": "250000 100000"}, 2),
        (V2, {"cpu.max": "50000 100000"}, 1),
        (V2, {"cpu.max": "max 100000"}, 0),
        (V2, {"cpu.max": "6400000 100000"}, 0),
        (V2, {"cpu.max": "gibberish"}, 0),
        (V2, {"cpu.max": "200000 0"}, 0),
        (V2, {}, 0),
        ("", {"cpu.max": "200000 100000"}, 0),
        ("no group\n", {}, 0),
        # A pod's own limit, and that of the pod around it.
        ("0::/pod/box\n", {"pod/cpu.max": "300000 100000", "pod/box/cpu.max": "max 100000"}, 3),
        ("0::/pod/box\n", {"pod/cpu.max": "300000 100000", "pod/box/cpu.max": "100000 100000"}, 1),
        ("0::/../../pod\n", {"cpu.max": "400000 100000"}, 4),
        # Version 1: in the container the group's own folder is the root of the mount.
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "200000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 2),
        (V1, {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        (V1, {"cpu/docker/7/cpu.cfs_quota_us": "5000", "cpu/docker/7/cpu.cfs_period_us": "1000"}, 5),
        (V1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 0),
        (V1, {"cpu/cpu.cfs_quota_us": "200000"}, 0),
        ("3:cpuacct:/\n", {"cpuacct/cpu.cfs_quota_us": "1", "cpuacct/cpu.cfs_period_us": "1"}, 0),
    ],
)
def test_a_quota_limits_the_threads(groups: str, files: dict[str, str], limit: int, tmp_path: Path) -> None:
    assert thread_limit(machine(tmp_path, groups, files), HOST) == limit


def test_so_do_the_processors_that_it_may_run_on(tmp_path: Path) -> None:
    root = machine(tmp_path, V2, {"cpu.max": "400000 100000"}, threads_per_core=2)
    assert thread_limit(root, set(range(4))) == 2  # two cores of two hardware threads each
    assert thread_limit(root, {0, 2, 4, 6, 8, 10}) == 4  # six cores: the quota is less
    assert thread_limit(root, {63}) == 1


def test_hardware_threads_are_no_cores(tmp_path: Path) -> None:
    root = machine(tmp_path, V2, {"cpu.max": "4000000 100000"}, threads_per_core=2)
    assert thread_limit(root, HOST) == 0, "40 of 64 processors are more than 32 cores can use"


def test_a_machine_that_tells_nothing_has_no_limit(tmp_path: Path) -> None:
    assert thread_limit(tmp_path) == 0
    assert thread_limit() >= 0


def test_a_models_pool_has_that_many_unless_it_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_model, "thread_limit", lambda: 3)
    path = tmp_path / "m.onnx"
    path.write_bytes(matmul_model(["m", 8], [8, 5]).SerializeToString())

    def threads(told: int) -> int:
        model = Model(ModelSettings("m", path, threads=told, stock=True), "1", path, None)
        session = model.session
        assert isinstance(session, ort.InferenceSession)
        found: int = session.get_session_options().intra_op_num_threads
        model.close()
        return found

    assert [threads(0), threads(5)] == [3, 5]
