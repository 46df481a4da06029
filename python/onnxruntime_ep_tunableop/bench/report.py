"""A report as text for a terminal, as Markdown, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from .figures import Interval
from .results import FirstRequest, Report, SideReport

_MOST_NODES = 12  # of one reason, in print; JSON has all
_MOST_PROBLEMS = 12


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, markdown: bool) -> list[str]:
    """Lines of a table, columns padded: the first to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    between = " | " if markdown else "  "
    lines = [
        between.join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    if not markdown:
        return [line.rstrip() for line in lines]
    rule = "|".join(("-" * (width + 1) + ":") if at else "-" * (width + 2) for at, width in enumerate(widths))
    return [f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])]


def seconds(value: float) -> str:
    """ "1.23 s", "45.6 ms", "78.9 us": three figures."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if value >= scale:
            return f"{three(value / scale)} {unit}"
    return f"{three(value / 1e-6)} us"


def megabytes(value: int) -> str:
    """ "123 MB" (2^20 bytes)."""
    return f"{value / 2**20:.0f} MB"


def three(value: float) -> str:
    """Three significant figures, without an exponent."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _share(value: float, most: float) -> str:
    return f" ({100 * value / most:.0f} %)" if most > 0 and value > 0 else ""


def text(report: Report, *, markdown: bool = False) -> str:
    """The report for a person."""
    lines = [f"{report.model}, {report.shapes}", ""]
    if markdown:
        lines = [f"## {report.model}", "", f"Inputs: {report.shapes}", ""]
    lines += [", ".join(f"{key} {value}" for key, value in report.machine.items()), ""]
    for made in (_speed, _rates, _first, _where):
        part = made(report, markdown)
        if part:
            lines += [*part, ""]
    lines += _products(report, markdown)
    lines += [f"note: {note}" for note in report.notes]
    lines.append(_verdict(report) + ("" if report.complaints else "; answers agree"))
    lines += [f"FAILED ({report.code}): {complaint}" for complaint in report.complaints]
    return "\n".join(lines)


def label(report: Report, name: str) -> str:
    """What a table calls a side: "tuned", "stock CPU"."""
    side = report.side(name)
    return f"stock {name.replace('ExecutionProvider', '')}" if side.kind == "stock" else name


def _speed(report: Report, markdown: bool) -> list[str]:
    """The table that was asked for: who is how fast."""
    header = ("", "median", "min", "p90", "p95", "p99", "calls/s", "speed-up")
    rows = []
    for side in report.sides:
        ratio = report.ratio(side.name)
        time, rate = side.latency, side.throughput
        rows.append(
            (
                label(report, side.name),
                *map(seconds, (time.median, time.minimum, time.p90, time.p95, time.p99)),
                f"{three(rate.mean)} +- {three(rate.deviation)}",
                "1" if ratio is None else str(ratio),
            )
        )
    lines = table(header, rows, markdown=markdown)
    baseline = label(report, report.baseline)
    words = (
        f"(speed-up: by the medians of the rounds, over {baseline}, with its 95 % bootstrap interval; "
        "the other columns: all calls together)"
    )
    return [*lines, *([""] if markdown else []), words]


def _rates(report: Report, markdown: bool) -> list[str]:
    """What of the machine was used, and how right the answers are."""
    header = ("", "GFLOP/s", "in products", "GB/s", "in products", "max error", "relative")
    best = report.ceiling
    flops, moved = (best.gflops, best.gigabytes_per_second) if best else (0.0, 0.0)

    def rate(value: float, most: float) -> str:
        return f"{three(value)}{_share(value, most)}" if value > 0 else "-"

    rows = [
        (
            label(report, side.name),
            rate(side.gflops, flops),
            rate(side.product_gflops, flops),
            rate(side.gigabytes_per_second, moved),
            rate(side.product_gigabytes_per_second, moved),
            *(
                ("-", "-")
                if side.name == report.baseline
                else (f"{side.agreement.absolute:.1e}", f"{side.agreement.relative:.1e}")
            ),
        )
        for side in report.sides
    ]
    if report.work is None:  # nothing was profiled: nobody knows how much work it was
        return table((header[0], *header[5:]), [(row[0], *row[5:]) for row in rows], markdown=markdown)
    lines = table(header, rows, markdown=markdown)
    if best is not None:
        words = (
            f"(of the model's {report.work.products} products, over the whole run and over the time in "
            f"them; in per cent of the best that this machine showed: {three(flops)} GFLOP/s, "
            f"{three(moved)} GB/s)"
        )
        lines += [*([""] if markdown else []), words]
    return lines


def _first(report: Report, markdown: bool) -> list[str]:
    """What a fresh process pays."""
    rows: list[Sequence[object]] = []
    for side in report.sides:
        if side.first is not None:
            rows.append(_first_row(label(report, side.name), side.first))
        if side.first_with_results is not None:
            rows.append(_first_row(f"{side.name}, with its results saved", side.first_with_results))
    if not rows:
        return []
    header = ("in a fresh process", "import", "session", "first request", "second", "peak memory")
    return table(header, rows, markdown=markdown)


def _first_row(name: str, first: FirstRequest) -> Sequence[object]:
    made = (first.import_seconds, first.creation_seconds)
    times = (*made, first.first_request_seconds, first.second_request_seconds)
    return (name, *map(seconds, times), megabytes(first.peak_bytes))


def _where(report: Report, markdown: bool) -> list[str]:
    """Nodes and time per provider."""
    rows = [
        (label(report, side.name), part.provider, part.nodes, seconds(part.seconds))
        for side in report.sides
        for part in side.provider_times
    ]
    return table(("nodes", "provider", "count", "time of a run"), rows, markdown=markdown) if rows else []


def _products(report: Report, markdown: bool) -> list[str]:
    """What tuning did, and which nodes are not with us."""
    lines: list[str] = []
    bullet = "- " if markdown else ""
    for side in report.sides:
        if side.tuned or side.hits or side.runtime_fallbacks:
            lines.append(f"{bullet}{side.name}: {_tuning(side)}")
    changed = [shape for shape in report.problems if shape.kernel != shape.default_kernel]
    for shape in changed[:_MOST_PROBLEMS]:
        gain = shape.default_milliseconds / shape.milliseconds if shape.milliseconds > 0 else 1.0
        lines.append(
            f"{bullet}{shape.problem}: {shape.kernel} instead of {shape.default_kernel}, {gain:.2f}x"
        )
    if len(changed) > _MOST_PROBLEMS:
        lines.append(f"{bullet}and {len(changed) - _MOST_PROBLEMS} more problems with another kernel")
    elsewhere: dict[str, list[str]] = {}
    for node in report.nodes:
        if not node.claimed:
            elsewhere.setdefault(node.reason, []).append(f"{node.op_type} '{node.name}'")
    if report.nodes:
        claimed = sum(node.claimed for node in report.nodes)
        lines.append(f"{bullet}{claimed} of {len(report.nodes)} MatMul and Gemm nodes run on our provider")
    for reason, names in elsewhere.items():
        more = f" and {len(names) - _MOST_NODES} more" if len(names) > _MOST_NODES else ""
        lines.append(f"{bullet}not on ours: {', '.join(names[:_MOST_NODES])}{more}: {reason}")
    return [*lines, ""] if lines else []


def _tuning(side: SideReport) -> str:
    words = f"{side.tuned} problem{'' if side.tuned == 1 else 's'} measured in {seconds(side.tuning_seconds)}"
    words += f", {side.hits} calls of products ran what was measured"
    if side.runtime_fallbacks:
        words += ", " + ", ".join(f"{count} did not: {why}" for why, count in side.runtime_fallbacks.items())
    return words + (f", {side.denied} kernels denied" if side.denied else "")


def _verdict(report: Report) -> str:
    parts = []
    for side in report.sides:
        ratio = report.ratio(side.name)
        if side.kind != "tunableop" or ratio is None:
            continue
        if not ratio.is_known:
            word = "measured too seldom to be compared with"
        elif ratio.low > 1.0:
            word = "faster than"
        elif ratio.high < 1.0:
            word = "slower than"
        else:
            word = "not to be told from"
        parts.append(f"{side.name} is {word} {label(report, report.baseline)}: {ratio}")
    return "; ".join(parts)


CSV_COLUMNS = (
    *("model", "shapes", "side", "baseline", "calls", "mean_s", "deviation_s", "min_s", "median_s"),
    *("p90_s", "p95_s", "p99_s", "max_s", "calls_per_s", "calls_per_s_deviation"),
    *("speedup", "speedup_low", "speedup_high", "gflops", "gbytes_per_s", "max_abs_error", "max_rel_error"),
    *("session_s", "first_request_s", "first_request_with_results_s", "tuning_s", "tuned", "peak_bytes"),
)


def csv_text(report: Report) -> str:
    """One line for each side."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for side in report.sides:
        ratio = report.ratio(side.name)
        time, rate = side.latency, side.throughput
        first, again = side.first, side.first_with_results
        writer.writerow(
            [
                *(report.model, report.shapes, side.name, report.baseline, time.count, time.mean),
                *(time.deviation, time.minimum, time.median, time.p90, time.p95, time.p99, time.maximum),
                *(rate.mean, rate.deviation),
                *(_ends(ratio) if ratio else ("", "", "")),
                *(side.gflops, side.gigabytes_per_second, side.agreement.absolute, side.agreement.relative),
                first.creation_seconds if first else side.creation_seconds,
                first.first_request_seconds if first else "",
                again.first_request_seconds if again else "",
                *(side.tuning_seconds, side.tuned, first.peak_bytes if first else ""),
            ]
        )
    return out.getvalue()


def _ends(ratio: Interval) -> tuple[object, object, object]:
    return (ratio.value, ratio.low, ratio.high) if ratio.is_known else (ratio.value, "", "")
