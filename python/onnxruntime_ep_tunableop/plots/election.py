"""One election from a trace: every sample, the medians, the bar to clear, the winner.

A trace is CSV: time_unix,problem,library,kernel,phase,round,ms,role, one line for each sample; those of a
kernel in the order they were taken, kernels one after another or mixed. phase: probe or race. role: default,
incumbent (served before), winner, challenger or spectator (runs beside, cannot win). A problem that was
measured again has several elections.

The bar is the incumbent's median less min_gain (the default's where there is no incumbent). Where neither the
trace nor the caller says who won, the lowest median below the bar is marked as "ahead", or else who held the
place: the tuner asks for more than medians (docs/tuning.md), and explain() has the last word.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("time_unix", "problem", "library", "kernel", "phase", "round", "ms", "role")
PHASES, ROLES = ("probe", "race"), ("incumbent", "default", "winner", "challenger", "spectator")


@dataclass(frozen=True)
class Row:
    """One sample."""

    problem: str
    kernel: str  #: with its library, as explain names it
    phase: str
    round: int
    ms: float
    role: str
    elected: bool = False


@dataclass(frozen=True)
class Lane:
    """One kernel in one election."""

    kernel: str
    role: str
    probes: tuple[float, ...]
    rounds: tuple[int, ...]
    race: tuple[float, ...]
    elected: bool = False

    @property
    def median(self) -> float | None:
        """Of the race; None for a kernel that only was probed."""
        return statistics.median(self.race) if self.race else None


@dataclass(frozen=True)
class Election:
    """One problem, measured once. Lanes: whose place it is first, then the others by their times."""

    problem: str
    lanes: tuple[Lane, ...]

    def holder(self) -> Lane | None:
        """Who has the place to lose: the incumbent, without one the default; None when neither raced."""
        for role in ("incumbent", "default"):
            for lane in self.lanes:
                if lane.role == role and lane.race:
                    return lane
        return None

    def bar(self, min_gain: float) -> float | None:
        """The median that a challenger must be below."""
        holder = self.holder()
        return None if holder is None or holder.median is None else holder.median * (1 - min_gain)

    def ahead(self, min_gain: float) -> Lane | None:
        """The lowest median below the bar, else the holder; without a holder the lowest median."""
        bar = self.bar(min_gain)
        racing = [
            (lane.median, place, lane)
            for place, lane in enumerate(self.lanes)
            if lane.median is not None and lane.role != "spectator"
        ]
        if bar is not None:
            racing = [one for one in racing if one[0] < bar]
        return min(racing)[2] if racing else self.holder()


def read_trace(path: Path) -> list[Row]:
    """The samples of a file. Raises ValueError, naming the line, when it is no trace."""
    rows = []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
            raise ValueError(
                f"{path.name}: no column {', '.join(missing)}: expected a trace (option trace of a session)"
            )
        for line in reader:
            where = f"{path.name}, line {reader.line_num}"
            if line["phase"] not in PHASES or line["role"] not in ROLES:
                raise ValueError(f"{where}: phase '{line['phase']}', role '{line['role']}' are not known")
            try:
                turn, ms = int(line["round"]), float(line["ms"])
            except (TypeError, ValueError) as error:
                raise ValueError(f"{where}: {error}") from None
            kernel = f"{line['library']}:{line['kernel']}"
            elected = line.get("elected") == "1" or line["role"] == "winner"
            rows.append(Row(line["problem"], kernel, line["phase"], turn, ms, line["role"], elected))
    return rows


def elections(rows: Sequence[Row]) -> list[Election]:
    """The elections of a trace in their order; lines of several problems may be mixed.

    A new one begins where a kernel has a probe after its race, or a round that it had already.
    """
    last: dict[tuple[str, str], Row] = {}
    current: dict[str, list[Row]] = {}
    done: list[list[Row]] = []
    for row in rows:
        before = last.get((row.problem, row.kernel))
        later = before is None or (PHASES.index(before.phase), before.round) < (
            PHASES.index(row.phase),
            row.round,
        )
        if row.problem not in current or not later:
            current[row.problem] = []
            done.append(current[row.problem])
            last = {key: value for key, value in last.items() if key[0] != row.problem}
        current[row.problem].append(row)
        last[row.problem, row.kernel] = row
    return [_election(group) for group in done]


def _election(rows: Sequence[Row]) -> Election:
    lanes = []
    for kernel in dict.fromkeys(row.kernel for row in rows):
        mine = [row for row in rows if row.kernel == kernel]
        race = [row for row in mine if row.phase == "race"]
        probes = tuple(row.ms for row in mine if row.phase == "probe")
        rounds, times = tuple(row.round for row in race), tuple(row.ms for row in race)
        roles = {row.role for row in mine}
        role = next(role for role in ROLES if role in roles)
        lanes.append(Lane(kernel, role, probes, rounds, times, any(row.elected for row in mine)))
    lanes.sort(key=lambda lane: (ROLES.index(lane.role), not lane.race, lane.median or min(lane.probes)))
    return Election(rows[0].problem, tuple(lanes))


def draw(election: Election, out: Path, min_gain: float, winner: str | None = None) -> None:
    """Writes the picture; its format is the suffix of `out`. Raises NoPlotError without matplotlib."""
    racing = sum(bool(lane.race) for lane in election.lanes)
    with style.canvas(10, 4.6 + 0.1 * racing) as figure:
        if any(lane.probes for lane in election.lanes):
            probes, race = figure.subplots(1, 2, width_ratios=(1, 4))
            last = max(len(lane.probes) for lane in election.lanes)
            probes.set(title="probes, before the race", xlabel="probe", ylabel="ms per call")
            probes.set_xticks(range(1, last + 1))
            probes.set_xlim(0.5, last + 0.5)
        else:
            race = probes = figure.subplots()
            race.set(ylabel="ms per call")
        top = _top(election)
        winner = winner or next((lane.kernel for lane in election.lanes if lane.elected), None)
        first = election.ahead(min_gain)
        marked = winner or (first.kernel if first else None)
        word = "winner" if winner else "ahead"
        place = 0
        for lane in election.lanes:
            look = _look(place) if lane.race else (style.GREY, ".")
            place += bool(lane.race)
            _draw_lane(probes, race, lane, look, word if lane.kernel == marked else "", top)
        if (bar := election.bar(min_gain)) is not None:
            label = f"{min_gain:.0%} below the one to beat: {bar:.4g} ms"
            race.axhline(bar, color="black", linestyle=":", linewidth=1.2, label=label)
        _explain(race, election)
        _name_far_samples(race, election)
        race.set(title="race: lines are medians, marks are samples", xlabel=_ROUNDS)
        race.set_ylim(bottom=0, top=None if top is None else top * 1.03)
        figure.suptitle(f"One election: {election.problem}", fontsize=11)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        style.save(figure, out)


def _look(place: int) -> tuple[str, str]:
    """Colour and marker; colours come back before markers do, so that no two kernels look the same."""
    colours = len(style.COLOURS)
    return style.COLOURS[place % colours], style.MARKERS[(place + place // colours) % len(style.MARKERS)]


def _explain(race: Axes, election: Election) -> None:
    """Legend entries for what is neither a line nor a kernel."""
    if only := sum(not lane.race for lane in election.lanes):
        several = "kernel" if only == 1 else "kernels"
        race.plot([], [], ".", color=style.GREY, label=f"only probed, not in the race: {only} {several}")
    top = _top(election)
    if top is not None and any(ms > top for lane in election.lanes for ms in lane.race):
        race.plot(
            [], [], "^", color=style.GREY, label="at the edge: further up, the largest of a round in ms"
        )


def _name_far_samples(race: Axes, election: Election) -> None:
    """Writes how far up the arrows of each round go."""
    top = _top(election)
    if top is None:
        return
    far: dict[int, list[float]] = {}
    for lane in election.lanes:
        for turn, ms in zip(lane.rounds, lane.race, strict=True):
            if ms > top:
                far.setdefault(turn, []).append(ms)
    for turn, found in far.items():
        words = f"{max(found):.3g}"
        race.annotate(
            words,
            (turn, top),
            textcoords="offset points",
            xytext=(0, -5),
            fontsize=7,
            rotation=90,
            ha="center",
            va="top",
        )


def _top(election: Election) -> float | None:
    """Where the picture ends: above the slowest median; what is above it is drawn as an arrow at the edge."""
    medians = [lane.median for lane in election.lanes if lane.median is not None]
    return 1.3 * max(medians) if medians else None


def _draw_lane(
    probes: Axes, race: Axes, lane: Lane, look: tuple[str, str], mark: str, top: float | None
) -> None:
    colour, marker = look
    drawn: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none"}
    if lane.probes:
        probes.plot(range(1, len(lane.probes) + 1), lane.probes, markersize=4.5, alpha=0.8, **drawn)
    if lane.median is None:
        return
    inside = [(turn, ms) for turn, ms in zip(lane.rounds, lane.race, strict=True) if top is None or ms <= top]
    race.plot([turn for turn, _ in inside], [ms for _, ms in inside], markersize=4.5, alpha=0.7, **drawn)
    for turn, ms in zip(lane.rounds, lane.race, strict=True):
        if top is not None and ms > top:
            race.plot([turn], [top], "^", color=colour, markersize=6)
    role = "" if lane.role in ("challenger", "winner") else f", {lane.role}"
    label = f"{lane.kernel}{role}: median {lane.median:.4g} ms, {len(lane.race)} rounds"
    race.plot(
        [lane.rounds[0], lane.rounds[-1]],
        [lane.median, lane.median],
        "--" if lane.role == "spectator" else "-",
        color=colour,
        linewidth=3.5 if mark else 1.4,
        zorder=1.5,
    )
    # For the legend: the line and its mark as one.
    race.plot(
        [],
        [],
        "--" if lane.role == "spectator" else "-",
        color=colour,
        marker=marker,
        markersize=4.5,
        linewidth=3.5 if mark else 1.4,
        label=f"{label} ({mark})" if mark else label,
    )


def said(election: Election) -> str:
    """On one line, for a list."""
    return f"({election.problem}), {sum(bool(lane.race) for lane in election.lanes)} kernels raced"


_ROUNDS = "round of the race: each kernel once, in an order drawn anew"
SAMPLE_COLUMNS = ("problem", "kernel", "role", "phase", "round", "ms", "median_ms")


def rows_of(election: Election) -> list[tuple[Any, ...]]:
    """What the picture draws, a row for each sample; the median of a kernel that did not race is empty."""
    rows: list[tuple[Any, ...]] = []
    for lane in election.lanes:
        about = (election.problem, lane.kernel, lane.role)
        median = "" if lane.median is None else lane.median
        rows += [(*about, "probe", turn, ms, median) for turn, ms in enumerate(lane.probes, 1)]
        rows += [(*about, "race", turn, ms, median) for turn, ms in zip(lane.rounds, lane.race, strict=True)]
    return rows
