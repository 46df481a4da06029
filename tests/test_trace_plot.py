from __future__ import annotations

import pytest

from benchmarks import trace_plot

PROBLEM = "M=8,N=8,K=8,fp32"
HEAD = ",".join(trace_plot.COLUMNS)


def lane(kernel, role, ms, rounds=6, probes=2, problem=PROBLEM):
    """The lines of one kernel: probes, then rounds 1 % above and below `ms`."""
    lines = [("probe", i, ms * 1.2) for i in range(probes)]
    lines += [("race", i, ms * (1 + 0.01 * (-1) ** i)) for i in range(rounds)]
    return [f'1700000000,"{problem}",native,{kernel},{p},{r},{t:.6g},{role}' for p, r, t in lines]


def election(*others, problem=PROBLEM):
    return [*lane("base", "default", 1.0, problem=problem), *(line for one in others for line in one)]


def mixed(lines):
    """The same lines in the order in which they were taken: probes first, then round by round."""
    cells = {line: line.rsplit(",", 5) for line in lines}
    return sorted(lines, key=lambda line: (cells[line][2] == "race", int(cells[line][3])))


def write(path, lines):
    path.write_text("\n".join([HEAD, *lines]) + "\n")
    return path


@pytest.fixture
def trace(tmp_path):
    return lambda lines: write(tmp_path / "trace.csv", lines)


@pytest.mark.parametrize("order", [list, mixed], ids=["kernel by kernel", "mixed"])
def test_lanes_and_elections(trace, order):
    first = election(lane("fast", "challenger", 0.9), lane("slow", "challenger", 2.0, rounds=0))
    again = election(lane("fast", "challenger", 0.99), lane("stock", "spectator", 0.5))
    other = election(problem="M=1,N=1,K=1,fp32")
    found = trace_plot.elections(trace_plot.read_trace(trace(order(first) + order(other) + order(again))))
    assert [one.problem for one in found] == [PROBLEM, "M=1,N=1,K=1,fp32", PROBLEM]
    assert [one.kernel for one in found[0].lanes] == ["native:base", "native:fast", "native:slow"]
    base, fast, slow = found[0].lanes
    assert (base.role, base.rounds, len(base.probes)) == ("default", (0, 1, 2, 3, 4, 5), 2)
    assert base.median == pytest.approx(1.0, rel=0.01)
    assert slow.median is None
    assert found[0].holder() == base
    assert found[0].bar(0.03) == pytest.approx(0.97, rel=0.01)
    assert found[0].ahead(0.03) == fast
    assert found[2].ahead(0.03).kernel == "native:base", "1 % is no gain, and a spectator cannot win"


def test_the_incumbent_is_the_one_to_beat(trace):
    lines = election(lane("old", "incumbent", 0.8), lane("new", "challenger", 0.79))
    (found,) = trace_plot.elections(trace_plot.read_trace(trace(lines)))
    assert found.holder().kernel == "native:old"
    assert found.ahead(0.03).kernel == "native:old"
    assert found.ahead(0.0).kernel == "native:new"


def test_without_a_holder_the_lowest_median_is_ahead(trace):
    lines = [*lane("a", "challenger", 1.0), *lane("b", "challenger", 0.9)]
    (found,) = trace_plot.elections(trace_plot.read_trace(trace(lines)))
    assert found.holder() is None
    assert found.bar(0.03) is None
    assert found.ahead(0.03).kernel == "native:b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_unix,problem\n", "t.csv: no column library, kernel, phase, round, ms, role: expected a trace"),
        (f"{HEAD}\n1,p,l,k,walk,0,1.0,default\n", "t.csv, line 2: phase 'walk'"),
        (f"{HEAD}\n1,p,l,k,race,0,1.0,boss\n", "t.csv, line 2: phase 'race', role 'boss'"),
        (f"{HEAD}\n1,p,l,k,race,0,fast,default\n", "t.csv, line 2: could not convert"),
        (f"{HEAD}\n1,p,l\n", "t.csv, line 2: phase 'None'"),
    ],
)
def test_what_is_no_trace_says_where(tmp_path, capsys, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(SystemExit):
        trace_plot.main([str(tmp_path / "t.csv"), "--list"])
    assert message in capsys.readouterr().err


def test_command_line(trace, tmp_path, capsys):
    path = str(trace(election(lane("fast", "challenger", 0.9))))
    assert trace_plot.main([path, "--list"]) == 0
    assert capsys.readouterr().out == f"0: ({PROBLEM}), 2 kernels raced\n"
    for arguments, message in (
        ([path], "out: expected a file that ends in .svg or .png"),
        ([path, "x.pdf"], "out: expected a file that ends in .svg or .png"),
        ([path, "x.svg", "--problem", "K=9"], "there are 0 elections of problems that contain 'K=9'"),
        ([path, "x.svg", "--election", "1"], "there are 1 elections"),
        ([path, "x.svg", "--winner", "native:nobody"], "did not run; there are native:base, native:fast"),
        ([str(tmp_path / "none.csv"), "x.svg"], "No such file"),
    ):
        with pytest.raises(SystemExit):
            trace_plot.main(arguments)
        assert message in capsys.readouterr().err


def test_pictures(trace, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra plot)")
    lines = election(
        lane("fast", "challenger", 0.9),
        lane("slow", "challenger", 2.0, rounds=0),
        lane("s", "spectator", 1.1),
    )
    path, svg, png = str(trace(lines)), tmp_path / "p.svg", tmp_path / "p.png"
    assert trace_plot.main([path, str(svg)]) == 0
    text = svg.read_text()
    assert PROBLEM in text
    assert "native:base, default: median 1 ms, 6 rounds<" in text
    assert "native:fast: median 0.9 ms, 6 rounds (ahead)<" in text
    assert "native:s, spectator" in text
    assert "native:slow" not in text, "it did not race"
    assert "3% below the one to beat: 0.97 ms<" in text
    assert trace_plot.main([path, str(tmp_path / "again.svg")]) == 0
    assert (tmp_path / "again.svg").read_bytes() == svg.read_bytes()
    assert trace_plot.main([path, str(svg), "--winner", "native:base", "--min-gain", "0.2"]) == 0
    assert "(ahead)<" not in svg.read_text()
    assert "native:base, default: median 1 ms, 6 rounds (winner)<" in svg.read_text()
    assert trace_plot.main([path, str(png)]) == 0
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_trace_that_names_the_winner_is_believed(trace, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra plot)")
    lines = election(lane("fast", "winner", 0.9), lane("lucky", "challenger", 0.8))
    assert trace_plot.main([str(trace(lines)), str(tmp_path / "p.svg")]) == 0
    text = (tmp_path / "p.svg").read_text()
    assert "native:fast: median 0.9 ms, 6 rounds (winner)<" in text
    assert text.count("(winner)<") == 1
    assert "(ahead)<" not in text
