"""Pictures of tuning results: what stands in them, read from the SVG, and what goes out as CSV."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from onnxruntime_ep_tunableop import cli
from onnxruntime_ep_tunableop.cache_tools import document as documents
from onnxruntime_ep_tunableop.plots import cells, election, heatmap, landscape, style, table
from support.documents import THERE, entry, section, write

SVG = "{http://www.w3.org/2000/svg}"
matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra plot)")


def texts(svg: Path) -> list[str]:
    """All texts of a picture, in its order."""
    import xml.etree.ElementTree as ElementTree

    return [
        "".join(one.itertext()).strip()
        for one in ElementTree.fromstring(svg.read_text(encoding="utf-8")).iter(f"{SVG}text")
    ]


def fills(svg: Path) -> list[str]:
    """Colours of the cells, in their order."""
    return re.findall(r"fill: (#[0-9a-f]{6}); stroke: #ffffff", svg.read_text())


@pytest.fixture
def plot(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command: (exit code, standard error)."""

    def call(*arguments: Any) -> tuple[int, str]:
        code = cli.main(["cache", "plot", *map(str, arguments)])
        return code, capsys.readouterr().err

    return call


def shown(*entries: dict[str, Any], **wanted: Any) -> list[table.Panel]:
    """Panels of entries."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (found,) = documents.read(write(Path(folder) / "a.json", section(*entries))).sections
    return table.panels(found, **wanted)


SWEEP = [
    entry(m, n, k, kernel=f"k{m % 3}", ms=m * n * k / 2**16, default_ms=m * n * k / 2**15)
    for m in (1, 16, 256)
    for n in (64, 1024)
    for k in (32, 128)
]


# cells


def test_panels_are_by_type_and_k() -> None:
    half = {"a_type": "fp16", "b_type": "fp16", "c_type": "fp16"}
    mixed = {"a_type": "fp16", "b_type": "fp16"}
    entries = [*SWEEP, entry(2, 64, 32, **half), entry(2, 64, 32, **mixed)]
    found = shown(*entries)
    assert [panel.title for panel in found] == [
        "k = 32, fp16",
        "k = 32, fp16xfp16->fp32",
        "k = 32, fp32",
        "k = 128, fp32",
    ]
    assert [(cell.entry.m, cell.entry.n) for cell in found[2].cells] == [
        (m, n) for m in (1, 16, 256) for n in (64, 1024)
    ]
    assert [panel.title for panel in shown(*entries, k=32, dtype="fp32")] == ["k = 32, fp32"]
    assert [len(panel.cells) for panel in shown(*entries, problem="N=64,")] == [1, 1, 3, 3]


def test_of_problems_with_the_same_sizes_the_most_used_is_shown() -> None:
    (panel,) = shown(
        entry(4, kernel="often", uses=9),
        entry(4, kernel="later", uses=5, trans_a=True, lda=4, measured_at=1_750_000_000),
        entry(4, kernel="bucket", uses=50, m_low=3, m_high=4),
        entry(5, kernel="alone"),
        entry(0, kernel="empty"),
    )
    assert [(cell.entry.kernel, cell.hidden) for cell in panel.cells] == [
        ("native:often", 2),
        ("native:alone", 0),
    ]


@pytest.mark.parametrize(
    ("sizes", "log", "expected"),
    [
        ([1, 2, 4], True, {1: (2**-0.5, 2**0.5), 2: (2**0.5, 2**1.5), 4: (2**1.5, 2**2.5)}),
        ([10, 12], True, {10: (10 / 2**0.5, 120**0.5), 12: (120**0.5, 12 * 2**0.5)}),
        ([1, 512], True, {1: (2**-0.5, 2**0.5), 512: (512 / 2**0.5, 512 * 2**0.5)}),
        ([3, 4, 5, 9], False, {3: (2.5, 3.5), 4: (3.5, 4.5), 5: (4.5, 5.5), 9: (8.5, 9.5)}),
        ([7], False, {7: (6.5, 7.5)}),
    ],
)
def test_cells_end_half_way_to_their_neighbours(
    sizes: Sequence[int], log: bool, expected: dict[int, tuple[float, float]]
) -> None:
    found = cells.edges(sizes, log)
    assert list(found) == list(expected)
    for size, (low, high) in expected.items():
        assert found[size] == pytest.approx((low, high))


def test_axes_name_sizes_that_stand_clear() -> None:
    assert cells.ticks([1, 2, 4, 512], True) == [1, 2, 4, 512]
    assert cells.ticks([100, 101, 102, 1000], True) == [100, 1000]
    assert len(cells.ticks(range(1, 1000), False)) <= 17


@pytest.mark.parametrize(
    ("what", "value", "label"),
    [
        ("ms", 0.5, "0.5"),
        ("ms", 0.012345, "0.0123"),
        ("ms", 1234.5, "1230"),
        ("ms", 99.96, "100"),
        ("ms", 0.00000123, "1e-6"),
        ("gflops", 176.4, "176"),
        ("gain", 1.0, "1.00"),
        ("gain", 12.345, "12.35"),
    ],
)
def test_labels_of_cells(what: str, value: float, label: str) -> None:
    assert heatmap.label(what, value) == label


# heat maps


def test_a_heat_map_says_what_it_shows(plot: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(*SWEEP))
    assert plot(file, "-o", tmp_path / "a.svg")[0] == 0
    said = texts(tmp_path / "a.svg")
    for text in (
        *("k = 32, fp32", "k = 128, fp32", "m: rows of A and C", "n: columns of B and C"),
        *("time of a call (ms)", "Time of the chosen kernel by size: lower is better"),
        "cpu: Test CPU, 4 processors",
    ):
        assert text in said, text
    # 1 x 64 x 32 / 2^16 to 256 x 1024 x 128 / 2^16 ms
    assert {"0.0312", "512"} <= set(said)
    values = [cell.value("ms") for panel in shown(*SWEEP) for cell in panel.cells]
    assert all(heatmap.label("ms", value) in said for value in values if value)
    assert not [text for text in said if "Grey" in text], "no cell is grey"
    assert {"1", "16", "256", "64", "1024"} <= set(said), "the sizes are on the axes"


@pytest.mark.parametrize(
    ("what", "bar"),
    [("gflops", "GFLOP/s"), ("gain", "time on the default kernel / time on the chosen one")],
)
def test_other_values(plot: Any, tmp_path: Path, what: str, bar: str) -> None:
    file = write(tmp_path / "a.json", section(*SWEEP))
    assert plot(file, "-o", tmp_path / "a.svg", "--value", what)[0] == 0
    said = texts(tmp_path / "a.svg")
    assert bar in said
    # 2 m n k / (m n k / 2^16 ms) = 2^17 / ms = 0.131 GFLOP/s everywhere; gain 2 everywhere
    assert said.count({"gflops": "0.131", "gain": "2.00"}[what]) == len(SWEEP)


def test_short_times_are_in_microseconds(plot: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry(1, ms=0.0005), entry(2, ms=0.125)))
    assert plot(file, "-o", tmp_path / "a.svg")[0] == 0
    said = texts(tmp_path / "a.svg")
    assert "time of a call (microseconds)" in said
    assert {"0.5", "125"} <= set(said)
    assert plot(file, "-o", tmp_path / "a.csv")[0] == 0
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [(row["value"], row["unit"]) for row in rows] == [("0.0005", "ms"), ("0.125", "ms")]


def test_slower_is_another_colour_and_equal_is_the_same(plot: Any, tmp_path: Path) -> None:
    entries = [entry(1, 64, ms=1.0), entry(1, 128, ms=1.0), entry(2, 64, ms=5.0)]
    file = write(tmp_path / "a.json", section(*entries))
    assert plot(file, "-o", tmp_path / "a.svg")[0] == 0
    one, same, slow = fills(tmp_path / "a.svg")
    assert one == same
    assert one != slow


def test_what_is_not_drawn_is_said(plot: Any, tmp_path: Path) -> None:
    entries = [
        *(entry(1, 64, uses=2), entry(1, 64, trans_a=True, lda=1), entry(2, 128)),
        *(entry(4, 64, k) for k in range(1000, 1000 + cells.MOST_PANELS)),
    ]
    file = write(tmp_path / "a.json", section(*entries))
    assert plot(file, "-o", tmp_path / "a.svg")[0] == 0
    said = " ".join(texts(tmp_path / "a.svg"))
    assert "Grey: no such size in the file." in said
    assert "1 cell stands for several problems of the same sizes; the one used most is shown." in said
    assert "The 12 panels with most cells, of 13." in said
    assert "k = 32, fp32" in said, "it has most cells"


def test_axes_are_logarithmic_where_sizes_span_a_decade(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = style.save

    def keep(figure: Any, out: Path) -> None:
        axes = figure.axes[0]
        seen.append((axes.get_xscale(), axes.get_yscale(), axes.get_xlim(), axes.get_ylim()))
        real(figure, out)

    monkeypatch.setattr(style, "save", keep)
    heatmap.draw(shown(entry(1, 64), entry(9, 640)), "ms", "", Path("/dev/null"))
    (x, y, xlim, ylim) = seen[0]
    assert (x, y) == ("log", "linear")
    assert xlim == pytest.approx((64 / 2**0.5, 640 * 2**0.5))
    assert ylim == pytest.approx((-3.0, 13.0))


# landscapes


def test_a_landscape_says_which_kernel_is_where(plot: Any, tmp_path: Path) -> None:
    entries = [
        *(entry(m, 64, kernel="often") for m in (1, 2, 4)),
        entry(8, 64, kernel="rare", stock_ms=0.5, stock_wins=True),
        entry(16, 64, kernel="plain"),
    ]
    file = write(tmp_path / "a.json", section(*entries))
    assert plot(file, "-o", tmp_path / "a.svg", "--kind", "landscape")[0] == 0
    said = texts(tmp_path / "a.svg")
    for text in (
        *("native:often (3 of 5)", "native:plain (1 of 5)", "native:rare (1 of 5)"),
        "filled mark: measured faster than the default kernel",
        *("open mark: the default kernel stays", "the stock provider is faster"),
        *("m: rows of A and C", "n: columns of B and C", "Chosen kernel by size"),
    ):
        assert text in said, text
    often, plain, rare = (colour.lower() for colour in style.COLOURS[:3])
    assert fills(tmp_path / "a.svg")[:5] == [often, often, often, rare, plain]


def test_the_stock_provider_is_in_the_legend_only_where_it_wins(plot: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry()))
    assert plot(file, "-o", tmp_path / "a.svg", "--kind", "landscape")[0] == 0
    assert "the stock provider is faster" not in texts(tmp_path / "a.svg")


def test_more_kernels_than_colours() -> None:
    most = len(style.COLOURS)
    entries = [entry(m, kernel=f"k{m:03}") for m in range(1, most + 4)] + [entry(1, 128, kernel="k005")]
    found, rest = landscape.looks(shown(*entries))
    assert next(iter(found)) == "native:k005", "chosen most often"
    assert len(found) == most
    assert len({look.colour for look in found.values()}) == most
    assert len({look.marker for look in found.values()}) == most, "it reads without colours"
    assert rest is not None
    assert rest.label == f"3 other kernels (3 of {most + 4})"
    assert landscape.looks(shown(entry()))[1] is None


# CSV


def test_csv_has_what_is_drawn(plot: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(*SWEEP, entry(3, ms=0.0, kernel="unmeasured")))
    assert plot(file, "-o", tmp_path / "a.csv", "--k", "32", "--value", "gain")[0] == 0
    with (tmp_path / "a.csv").open(newline="") as lines:
        rows = list(csv.reader(lines))
    assert tuple(rows[0]) == table.HEAT_MAP_COLUMNS
    assert rows[1] == ["fp32", "32", "1", "64", "2.0", "gain", "native:k1", "M=1,N=64,K=32,fp32", "0"]
    assert [row[2:4] for row in rows[1:]] == [[m, n] for m in ("1", "16", "256") for n in ("64", "1024")]
    assert plot(file, "-o", tmp_path / "l.csv", "--k", "32", "--kind", "landscape")[0] == 0
    rows = list(csv.reader((tmp_path / "l.csv").open(newline="")))
    assert tuple(rows[0]) == table.LANDSCAPE_COLUMNS
    assert [row[4] for row in rows[1:]] == [
        *("native:k1", "native:k1", "native:unmeasured", "native:k1", "native:k1", "native:k1", "native:k1")
    ]


# all pictures


@pytest.mark.parametrize("kind", ["heatmap", "landscape"])
def test_the_same_file_gives_the_same_picture(plot: Any, tmp_path: Path, kind: str) -> None:
    file = write(tmp_path / "a.json", section(*SWEEP))
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": "mine", "axes.facecolor": "red"}):
        assert plot(file, "-o", tmp_path / "a.svg", "--kind", kind)[0] == 0
    assert plot(file, "-o", tmp_path / "b.svg", "--kind", kind)[0] == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "<dc:date>" not in (tmp_path / "a.svg").read_text()
    assert plot(file, "-o", tmp_path / "a.png", "--kind", kind)[0] == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_pyplot_and_the_user_s_backend_are_left_alone(plot: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry()))
    before = dict(matplotlib.rcParams)
    plot(file, "-o", tmp_path / "a.png")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("kind", ["heatmap", "landscape", "trace"])
def test_without_matplotlib_the_message_says_what_to_install(
    plot: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    file = write(tmp_path / "a.json", section(entry()))
    if kind == "trace":
        file = trace(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, err = plot(file, "-o", tmp_path / "a.svg", "--kind", kind)
    assert code == 1
    assert "pip install 'onnxruntime-ep-tunableop[plot]'" in err
    assert not (tmp_path / "a.svg").exists()
    assert plot(file, "-o", tmp_path / "a.csv", "--kind", kind)[0] == 0, "CSV needs no matplotlib"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "a.pdf"), "--out: expected a file that ends in .png, .svg or .csv, found 'a.pdf'"),
        (("-o", "a.svg", "--machine", "2"), "--machine: expected 0 to 1, found 2"),
        (("-o", "a.svg", "--machine", "-1"), "--machine: expected 0 to 1, found -1"),
        (("-o", "a.svg", "--k", "5"), "no entry is left: there are k = 32 and the types fp32"),
        (("-o", "a.svg", "--dtype", "fp64"), "no entry is left: there are k = 32 and the types fp32"),
        (("-o", "a.svg", "--problem", "transB"), "no entry is left"),
        (("-o", "a.svg", "--kind", "pie"), "invalid choice: 'pie'"),
        ((), "expected -o OUT, found nothing"),
        (("--list",), "--list: expected --kind trace beside it"),
    ],
)
def test_wrong_usage(
    plot: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "a.json", section(entry()), section(entry(), machine=THERE))
    code, err = plot(file, *arguments)
    assert code == 2
    assert message in err


def test_nothing_to_draw(plot: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", section(entry(ms=0.0)))
    code, err = plot(file, "-o", tmp_path / "a.svg")
    assert code == 1
    assert "there is no ms to draw: nothing was measured" in err
    assert plot(write(tmp_path / "b.json", section()), "-o", tmp_path / "a.svg")[0] == 2
    code, err = plot(write(tmp_path / "c.json"), "-o", tmp_path / "a.svg")
    assert code == 2
    assert "the file holds no machine's results" in err


def test_names_with_odd_letters_are_drawn(plot: Any, tmp_path: Path) -> None:
    """Dollar signs are mathematics to matplotlib, and unbalanced ones an error."""
    file = write(
        tmp_path / "a.json",
        section(entry(kernel="a$b_{<&$"), machine={**THERE, "model": "C\\PU <&>$x^$"}),
    )
    for kind in ("heatmap", "landscape"):
        assert plot(file, "-o", tmp_path / "a.svg", "--kind", kind) == (0, f"wrote {tmp_path}/a.svg\n")
        assert any("C\\PU <&>$x^$" in text for text in texts(tmp_path / "a.svg"))
    assert "native:a$b_{<&$ (1 of 1)" in texts(tmp_path / "a.svg")


def test_many_shapes_are_drawn_without_labels(plot: Any, tmp_path: Path) -> None:
    entries = [entry(m, n, ms=1.0 + m / 7) for m in range(1, 60) for n in range(64, 1280, 64)]
    file = write(tmp_path / "a.json", section(*entries))
    assert plot(file, "-o", tmp_path / "a.svg")[0] == 0
    said = texts(tmp_path / "a.svg")
    assert len(fills(tmp_path / "a.svg")) == len(entries)
    assert "1.14" not in said


# traces


def trace(folder: Path) -> Path:
    file = folder / "trace.csv"
    lines = [",".join(election.COLUMNS)]
    for kernel, role, ms in (("base", "default", 1.0), ("fast", "winner", 0.5)):
        lines += [f'1,"M=8,N=8",native,{kernel},probe,0,{ms * 2},{role}']
        lines += [f'1,"M=8,N=8",native,{kernel},race,{turn},{ms},{role}' for turn in range(3)]
    lines += ['2,"M=9,N=8",native,base,race,0,7.0,default', '2,"M=9,N=8",native,far,race,0,1,challenger']
    lines += ['2,"M=9,N=8",native,far,race,1,1,challenger', '2,"M=9,N=8",native,far,race,2,99,challenger']
    lines += ['2,"M=9,N=8",native,slow,probe,0,20,challenger']
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_trace_is_drawn(plot: Any, tmp_path: Path) -> None:
    file = trace(tmp_path)
    assert plot(file, "-o", tmp_path / "a.svg", "--kind", "trace", "--problem", "M=8,")[0] == 0
    said = texts(tmp_path / "a.svg")
    for text in (
        *("One election: M=8,N=8", "ms per call", "probes, before the race"),
        "native:base, default: median 1 ms, 3 rounds",
        "native:fast: median 0.5 ms, 3 rounds (winner)",
        *("3% below the one to beat: 0.97 ms", "race: lines are medians, marks are samples"),
    ):
        assert text in said, text
    assert plot(file, "-o", tmp_path / "a.svg", "--kind", "trace")[0] == 0, "the last one"
    said = texts(tmp_path / "a.svg")
    assert {"99", "at the edge: further up, the largest of a round in ms"} <= set(said)
    assert "only probed, not in the race: 1 kernel" in said


def test_a_trace_as_csv(plot: Any, tmp_path: Path) -> None:
    file = trace(tmp_path)
    assert plot(file, "-o", tmp_path / "a.csv", "--kind", "trace", "--election", "0")[0] == 0
    rows = list(csv.reader((tmp_path / "a.csv").open(newline="")))
    assert tuple(rows[0]) == election.SAMPLE_COLUMNS
    assert rows[1:3] == [
        ["M=8,N=8", "native:base", "default", "probe", "1", "2.0", "1.0"],
        ["M=8,N=8", "native:base", "default", "race", "0", "1.0", "1.0"],
    ]
    assert len(rows) == 9


def test_elections_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cache", "plot", str(trace(tmp_path)), "--kind", "trace", "--list"]) == 0
    assert capsys.readouterr().out == "0: (M=8,N=8), 2 kernels raced\n1: (M=9,N=8), 2 kernels raced\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--problem", "M=7"), "there are 0 elections of problems that contain 'M=7'"),
        (("--election", "2"), "there are 2 elections"),
        (("--winner", "native:none"), "--winner: expected one of native:base, native:far, native:slow"),
    ],
)
def test_wrong_usage_of_traces(plot: Any, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, err = plot(trace(tmp_path), "-o", tmp_path / "a.svg", "--kind", "trace", *arguments)
    assert code == 2
    assert message in err


def test_kernels_of_an_election_look_different() -> None:
    looks = [election._look(place) for place in range(100)]
    assert len(set(looks)) == len(looks)


def test_a_trace_and_results_are_told_apart(plot: Any, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("time_unix,problem\n")
    code, said = plot(tmp_path / "trace.csv", "-o", tmp_path / "a.svg")
    assert (code, "a trace is drawn with --kind trace" in said) == (2, True)
    code, said = plot(
        write(tmp_path / "a.json", section(*SWEEP)), "--kind", "trace", "-o", tmp_path / "a.svg"
    )
    assert (code, "expected a trace" in said) == (1, True)
