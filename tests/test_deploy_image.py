"""The container file: what it needs is there, what it runs is what the server takes.

Building it takes an engine and a base image; these are the mistakes that can be seen without.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from onnxruntime_ep_tunableop.cli.serve import COMMAND
from packaging.requirements import Requirement
from support.containerfile import Instruction, Stage, read
from support.graphs import matmul_model
from support.served import fake, started
from support.waiting import until

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli", reason="Python 3.10 reads no TOML by itself")

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "deploy" / "Containerfile"
HEALTH = ROOT / "deploy" / "health.py"

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="no clone")


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return read(FILE)[1]


@pytest.fixture(scope="module")
def final(stages: list[Stage]) -> Stage:
    return stages[-1]


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    COMMAND.add_arguments(parser)
    return parser.parse_args(arguments)


def copied(stages: list[Stage]) -> list[str]:
    """What is taken from the clone."""
    entries = [entry for stage in stages for entry in stage.all("COPY") if "--from=" not in entry.text]
    return [source for entry in entries for source in entry.words[:-1]]


def test_what_is_copied_is_there_and_not_ignored(stages: list[Stage]) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert lines[1] == "*"
    for source in copied(stages):
        assert (ROOT / source).exists(), source
        assert source in kept
    assert sorted(kept) == sorted(copied(stages)), "what is sent to the engine is what is copied"


def test_what_the_build_names_is_copied(stages: list[Stage]) -> None:
    """CMake's and the package's own words for files outside of the folders that are copied whole."""
    sources = copied(stages)
    scripts = [ROOT / "CMakeLists.txt", *(ROOT / "ep").rglob("CMakeLists.txt"), ROOT / "pyproject.toml"]
    named = {
        name
        for script in scripts
        for line in script.read_text().splitlines()
        for name in re.findall(r"\b(?:docs|tools|examples|benchmarks)/[\w./-]+\.\w+", line)
        if not line.lstrip().startswith("#")
    }
    assert "docs/tuning-results.schema.json" in named
    assert named <= set(sources)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for needed in (
        project["project"]["readme"],
        *project["project"]["license-files"],
        *(path.split("/")[0] for path in project["tool"]["scikit-build"]["wheel"]["packages"].values()),
    ):
        assert needed in sources


def test_each_stage_begins_with_a_pinned_image_or_an_earlier_stage() -> None:
    before, stages = read(FILE)
    (argument,) = before
    name, _, default = argument.text.partition("=")
    assert stages[0].base == f"${{{name}}}"
    assert re.fullmatch(r"docker\.io/\S+:\d+\.\d+-\S+", default), "a registry, and a version"
    for number, stage in enumerate(stages[1:], 1):
        assert stage.base in [earlier.name for earlier in stages[:number]]
    for stage in stages:
        for entry in stage.all("COPY"):
            if found := re.search(r"--from=(\S+)", entry.text):
                assert found[1] in [earlier.name for earlier in stages]


def steps(stages: list[Stage]) -> list[Instruction]:
    return [entry for stage in stages for entry in stage.all("RUN")]


def test_steps_are_of_the_shell_and_leave_nothing_behind(stages: list[Stage]) -> None:
    for entry in steps(stages):
        subprocess.run(["sh", "-n", "-c", entry.text], check=True)
        if "apt-get install" in entry.text:
            assert "apt-get update &&" in entry.text, "in one step: the list is not kept"
            assert "--no-install-recommends" in entry.text
            assert "rm -rf /var/lib/apt/lists/*" in entry.text
        for command in re.findall(r"pip install[^&;]*", entry.text):
            assert "--constraint deploy/constraints.txt" in command
    assert not [entry for stage in stages for entry in stage.all("ADD")]
    assert not any("sudo" in entry.text or "curl" in entry.text for entry in steps(stages))


def test_the_compiler_stays_behind(final: Stage) -> None:
    assert not any("apt-get" in entry.text or "pip" in entry.text for entry in final.all("RUN"))
    (copy,) = final.all("COPY")
    assert copy.text == "--from=build /opt/tunableop /opt/tunableop", (
        "where the environment was made, at that"
    )


def test_it_runs_as_nobody_in_particular(final: Stage) -> None:
    user, group = final.only("USER").text.split(":")
    assert int(user) > 0
    assert group == "0"
    later = final.instructions[final.instructions.index(final.only("USER")) :]
    assert not [entry for entry in later if entry.name in ("RUN", "COPY")]
    (state,) = (entry.text for entry in final.all("VOLUME"))
    (made,) = (entry.text for entry in final.all("RUN"))
    assert f"chown {user}:0 {state}" in made


def test_signals_reach_the_server(final: Stage) -> None:
    entry = final.only("ENTRYPOINT").array  # not the shell form
    assert entry[:2] == ["tunableop", "serve"]
    assert final.only("STOPSIGNAL").text == "SIGTERM"
    assert final.only("ENV").text.startswith("PATH=/opt/tunableop/bin:")


def test_what_others_keep_at_home_is_not_in_the_shared_volume(final: Stage) -> None:
    assert "HOME=/tmp" in final.only("ENV").words
    assert final.only("VOLUME").text != "/tmp"


def test_what_it_runs_is_what_the_command_takes(final: Stage) -> None:
    given = parsed([*final.only("ENTRYPOINT").array[2:], *final.only("CMD").array])
    assert given.host == "0.0.0.0"
    assert str(given.state) == final.only("VOLUME").text == final.only("WORKDIR").text
    assert final.only("EXPOSE").words == [str(given.http_port), str(given.grpc_port)]
    assert any(f"mkdir -p {given.repository} {given.state}" in entry.text for entry in final.all("RUN"))


def test_versions_are_pinned_and_right() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = {}
    for line in (ROOT / "deploy" / "constraints.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, version = re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups()  # type: ignore[union-attr]
            pins[_plain(name)] = version
    extras = project["project"]["optional-dependencies"]
    (default,) = (
        entry.text.partition("=")[2]
        for stage in read(FILE)[1]
        for entry in stage.all("ARG")
        if entry.text.startswith("EXTRAS=")
    )
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    wanted += [entry for extra in default.split(",") for entry in extras[extra]]
    for entry in map(Requirement, wanted):
        assert pins[_plain(entry.name)] in entry.specifier, entry


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def healthy(url: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    environment |= {"http_proxy": "http://127.0.0.1:9"}  # which is not asked
    if url is not None:
        environment["TUNABLEOP_HEALTH_URL"] = url
    return subprocess.run(
        [sys.executable, str(HEALTH)],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_health_check_is_in_the_image_and_asks_where_the_server_is(
    final: Stage, stages: list[Stage]
) -> None:
    command = final.only("HEALTHCHECK").array
    assert command == ["python", "/opt/tunableop/health.py"]
    assert any(entry.text == "deploy/health.py /opt/tunableop/" for entry in stages[1].all("COPY"))
    given = parsed(final.only("ENTRYPOINT").array[2:])
    assert f'"http://127.0.0.1:{given.http_port}/v2/health/ready"' in HEALTH.read_text()
    (timeout,) = re.findall(r"--timeout=(\d+)s", final.only("HEALTHCHECK").text)
    (own,) = re.findall(r"^_SECONDS = ([\d.]+)$", HEALTH.read_text(), re.MULTILINE)
    assert float(own) < float(timeout), "it says why before it is ended"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v2/health/ready", "nonsense", "file:///etc/passwd/x"])
def test_what_does_not_answer_is_not_healthy(url: str) -> None:
    found = healthy(url)
    assert found.returncode == 1
    assert found.stderr.startswith(f"{url}: ")
    assert "Traceback" not in found.stderr


def test_the_server_of_the_image_from_its_first_to_its_last_breath(final: Stage, tmp_path: Path) -> None:
    """ENTRYPOINT and CMD, with other ports and folders; the check that the image makes; TERM."""
    (tmp_path / "models" / "small" / "1").mkdir(parents=True)
    graph = matmul_model(["m", 8], [8, 5])
    (tmp_path / "models" / "small" / "1" / "model.onnx").write_bytes(graph.SerializeToString())
    places = {"/var/lib/tunableop": str(tmp_path / "state"), "/models": str(tmp_path / "models")}
    words = [*final.only("ENTRYPOINT").array[1:], *final.only("CMD").array]
    command = [sys.executable, "-m", "onnxruntime_ep_tunableop", *(places.get(word, word) for word in words)]
    with started([*command, "--http-port", "0", "--grpc-port", "0", "--access-log", "off"]) as server:
        url = f"http://{server.http}/v2/health/ready"
        until(lambda: healthy(url).returncode == 0, "the check finds it ready")
        assert server.end(signal.SIGTERM)[0] == 0


def test_an_answer_that_is_an_error_is_not_healthy() -> None:
    with fake() as server:
        assert healthy(f"http://{server.http}/v2/models/echo/ready").returncode == 0
        found = healthy(f"http://{server.http}/v2/models/none/ready")
        assert found.returncode == 1
        assert "404" in found.stderr


def test_patterns_that_are_ignored_match_what_models_leave() -> None:
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("**/")]
    for name in ("minilm.onnx", "bert.onnx.data", "__pycache__"):
        assert any(fnmatch.fnmatch(name, pattern.removeprefix("**/")) for pattern in patterns)
