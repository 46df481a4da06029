"""Is a file of tuning results readable, valid, of this machine, used by the model, and can it be saved to?"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import _control, _core
from .check import Finding, Verdict, asks, count

_MOST = 8  # lines that are told; --json has all
#: Modes in which a session never saves what it learned.
SILENT = ("off", "cached")


@dataclass
class Loaded:
    """What the loader says of a file."""

    entries: int = 0  #: that a session here can use
    machines: list[dict[str, Any]] = field(default_factory=list)  #: fingerprints, with counts
    here: dict[str, Any] = field(default_factory=dict)  #: this machine's fingerprint
    whole: list[str] = field(default_factory=list)  #: why the document was refused as a whole
    foreign: list[str] = field(default_factory=list)  #: sections of other machines
    library: list[str] = field(default_factory=list)  #: entries of other libraries or versions
    invalid: list[str] = field(default_factory=list)  #: everything else that was dropped


def load(path: Path, device: str) -> Loaded:
    """Lets a session of the device load it. Changes nothing."""
    from . import trial

    session = trial.session(device=device, tuning="cached")
    found = Loaded()
    found.here = dict(_control.get_tuning_results(session)["machines"][0]["fingerprint"])
    for line in _control.load_cache(session, path):
        if line.endswith("document ignored"):
            found.whole.append(line)
        elif line.endswith("of another machine ignored"):
            found.foreign.append(line)
        elif "field 'winner." in line or "field 'library_identity'" in line:
            found.library.append(line)
        else:
            found.invalid.append(line)
    sections = _control.get_tuning_results(session)["machines"]
    found.entries = sum(
        len(section["entries"]) for section in sections if section["fingerprint"] == found.here
    )
    if not found.whole:
        found.machines = _machines(path)
    return found


def _machines(path: Path) -> list[dict[str, Any]]:
    """Fingerprints and counts of a document that can be read."""
    sections = json.loads(path.read_bytes()).get("machines", [])
    return [
        {
            "fingerprint": section["fingerprint"],
            **{part: len(section.get(part, ())) for part in ("entries", "seen", "nodes", "forms", "denied")},
        }
        for section in sections
        if isinstance(section, dict) and isinstance(section.get("fingerprint"), dict)
    ]


@asks("cache.file", "is the file there, readable and valid?")
def file(path: Path, device: str, keep: Callable[[Loaded], None], tuning: str = "online") -> Finding:
    """`keep` gets what was loaded, when it is of use to ask further."""
    quoted = shlex.quote(str(path))
    if not os.path.lexists(path):
        if not path.absolute().parent.is_dir():
            evidence = [f"there is no folder {path.absolute().parent}"]
            return Finding("problem", evidence, f"mkdir -p {shlex.quote(str(path.absolute().parent))}")
        evidence = [f"there is no {path}: sessions start without results"]
        # Whoever measures makes the file.
        verdict: Verdict = "problem" if tuning == "cached" else "warning"
        return Finding(verdict, evidence, f"tunableop tune MODEL --cache {quoted}")
    found = load(path, device)
    if found.whole:
        return Finding("problem", found.whole, refused(path, found.whole[0]))
    keep(found)
    evidence = [f"{path}, {path.stat().st_size:,} bytes, of {count(len(found.machines), 'machine')}"]
    if found.invalid:
        lines = _few(found.invalid)
        return Finding("warning", [*lines, *evidence], f"tunableop cache validate {quoted}")
    return Finding("ok", evidence)


def refused(path: Path, line: str) -> str:
    """The remedy for a document that was refused as a whole."""
    quoted = shlex.quote(str(path))
    if "Permission denied" in line:
        return f"chmod u+rw {quoted}"
    if "Is a directory" in line or path.is_dir():
        return f"--cache {shlex.quote(str(path / 'tune.json'))}"
    if ": schema: " in line:
        return "pip install -U onnxruntime-ep-tunableop"
    return f"mv {quoted} {shlex.quote(str(path) + '.damaged')}"


@asks("cache.machine", "was it measured on this machine, with these libraries?")
def machine(path: Path, found: Loaded) -> Finding:
    """Whether there is something in it for sessions here."""
    evidence = [f"{count(found.entries, 'entry')} can be used here"]
    evidence += [_section(section, found.here) for section in found.machines]
    tune = f"tunableop tune MODEL --cache {shlex.quote(str(path))}"
    own = any(section["fingerprint"] == found.here for section in found.machines)
    if not own:
        lines = _few(found.foreign)
        evidence.append(f"here: {_words(found.here)}")
        if not found.machines:
            return Finding("note", ["it holds no results yet", *evidence], tune)
        return Finding("problem", ["it holds nothing of this machine", *lines, *evidence], tune)
    if found.library:
        lines = _few(found.library)
        return Finding("problem" if found.entries == 0 else "warning", [*lines, *evidence], tune)
    if found.entries == 0:
        return Finding("note", ["nothing in it was measured yet", *evidence], tune)
    return Finding("ok", evidence)


def _section(section: dict[str, Any], here: dict[str, Any]) -> str:
    own = "this machine" if section["fingerprint"] == here else "another machine"
    words = {"entries": "entry", "seen": "seen problem", "denied": "denial"}
    counts = ", ".join(count(section[part], word) for part, word in words.items() if section[part])
    return f"{own}: {_words(section['fingerprint'])}: {counts or 'empty'}"


def _words(fingerprint: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in fingerprint.items() if key != "features")


def _few(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST
    return [*lines[:_MOST], *([f"and {more} more"] if more > 0 else [])]


@asks("cache.writable", "can results be saved to it?")
def writable(path: Path, tuning: str) -> Finding:
    """The folder is what matters: a file is replaced as a whole."""
    target = path.resolve()
    folder = target.parent
    lock = target.with_name(target.name + ".lock")
    if tuning in SILENT:
        return Finding("ok", [f"not needed with tuning={tuning}"])
    if not os.access(folder, os.W_OK | os.X_OK):
        evidence = [f"{folder} may not be written to: what is measured is lost at the end"]
        return Finding("problem", evidence, f"chmod u+wx {shlex.quote(str(folder))}")
    if lock.exists():
        if not os.access(lock, os.R_OK | os.W_OK):
            evidence = [f"{lock} belongs to another user: nobody else can save"]
            return Finding("problem", evidence, f"sudo chmod a+rw {shlex.quote(str(lock))}")
        holder = held_by(lock)
        if holder is not None:
            evidence = [f"{lock} is held by {holder}: a save waits for it, 30 s at most"]
            return Finding("warning", evidence, "let it end, or end it if it hangs")
    return Finding("ok", [f"{folder} may be written to; nobody holds its lock"])


def held_by(lock: Path) -> str | None:
    """Who holds the lock of a file; None: nobody. Takes it for a moment."""
    with lock.open("rb+") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return _holder(os.fstat(opened.fileno()).st_ino)
        fcntl.flock(opened, fcntl.LOCK_UN)
    return None


def _holder(inode: int) -> str:
    try:
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        locks = []
    for line in locks:
        found = re.search(rf"FLOCK\s.*?\s(\d+) \S+:{inode} ", line)
        if found and "->" not in line:
            return f"process {found[1]}"
    return "another process"


@asks("cache.leftovers", "does something beside it tell of trouble?")
def leftovers(path: Path) -> Finding:
    """Files set aside, and traces of processes that a kernel killed."""
    target = path.resolve()
    beside = sorted(target.parent.iterdir())
    bad = [file for file in beside if re.fullmatch(re.escape(target.name) + r"\.bad(\.\d+)?", file.name)]
    trying = [file for file in beside if file.name.startswith(f"{target.name}.trying.")]
    deaths = [line for file in trying if (line := _death(target, file)) is not None]
    evidence = [f"{file.name}: a save found content that it did not understand, and kept it" for file in bad]
    evidence += deaths
    if deaths:
        # The next session does that by itself; nothing else removes a denial's cause.
        return Finding("note", evidence, f"tunableop cache show {shlex.quote(str(path))}")
    if bad:
        files = " ".join(shlex.quote(str(file)) for file in bad)
        return Finding("note", evidence, f"look at what is missing, then: rm {files}")
    running = len(trying) - len(deaths)
    return Finding("ok", [f"measuring with it: {count(running, 'process')}" if running else "nothing"])


def _death(cache: Path, journal: Path) -> str | None:
    """What the dead process behind a journal was calling; None: it lives, or died of something else."""
    pid = journal.name.removeprefix(f"{cache.name}.trying.").partition(".")[0]
    if not pid.isdecimal():
        return None
    if _core.watch_journal(str(cache), int(pid)) is not None:
        return None
    call = _core.last_call(str(cache), int(pid))
    if call is None:
        return None
    return (
        f"{journal.name}: a process ended in {call['library']}:{call['kernel']} ({call['problem']}); "
        "the next session denies that kernel"
    )


@asks("cache.hit", "does the model use what is in it?")
def hit(path: Path, hits: int, misses: Iterable[str], shapes: str, sizes: str = "") -> Finding:
    """`misses`: problems of the model that are not in the file.

    `sizes`: how those sizes are given that nobody gave, and that were taken as 1; empty where there are none.
    """
    missing = list(misses)
    evidence = [f"of the model's problems {hits} are in it, {len(missing)} not"]
    if not missing:
        return Finding("ok", evidence)
    lines = [f"not in it: {problem}" for problem in missing]
    if sizes:  # the file may well have those that are served
        evidence.append("sizes that were not given are taken as 1 here")
        return Finding("warning", [*evidence, *_few(lines)], sizes)
    remedy = f"tunableop tune MODEL --cache {shlex.quote(str(path))}{shapes}"
    return Finding("problem" if hits == 0 else "warning", [*evidence, *_few(lines)], remedy)
