from __future__ import annotations

from pathlib import Path

import pytest
from onnxruntime_ep_tunableop import OptionError
from onnxruntime_ep_tunableop.bench import shapes
from onnxruntime_ep_tunableop.bench.shapes import Shape, read_shapes


def test_sizes():
    assert read_shapes("128,768,3072") == [Shape("128x768x3072", 1, 128, 768, 3072, True)]
    assert read_shapes(" 128 , 64,  32 , 96 ") == [Shape("96x128x64x32", 96, 128, 64, 32, False)]
    assert read_shapes("1,1,1,1") == [Shape("1x1x1", 1, 1, 1, 1, True)]


def test_the_shapes_of_the_package():
    found = read_shapes()
    assert len(found) == 26
    assert found[0] == Shape("bert_b16_qkv", 1, 2048, 768, 768, True)
    scores = next(shape for shape in found if shape.name == "attn_scores")
    assert scores == Shape("attn_scores", 96, 128, 128, 64, False)
    assert read_shapes(shapes.PACKAGED) == read_shapes(str(shapes.PACKAGED)) == found


def test_work_of_a_shape():
    weight, computed = Shape("a", 3, 4, 5, 6, True), Shape("b", 3, 4, 5, 6, False)
    assert weight.flops == computed.flops == 2 * 3 * 4 * 5 * 6
    assert weight.elements == 3 * (4 * 6 + 4 * 5) + 6 * 5
    assert computed.elements == 3 * (4 * 6 + 4 * 5 + 6 * 5)
    assert (weight.size, Shape("c", 1, 4, 5, 6, True).size) == ("3x 4x5x6", "4x5x6")


def test_a_file_of_a_users_own(tmp_path: Path):
    path = tmp_path / "mine.csv"
    path.write_text(
        "# mine\nk,n,m,why,name\n\n6,5,4,because,first\n# not this\n3,2,1,,\n", encoding="utf-8-sig"
    )
    expected = [Shape("first", 1, 4, 5, 6, True), Shape("1x2x3", 1, 1, 2, 3, True)]
    assert read_shapes(path) == read_shapes(str(path)) == expected
    text = "name, m, n, k, batch, b_const\nx, 4, 5, 6, 7, 1\ny,4,5,6,7,\n"
    assert read_shapes(text) == [Shape("x", 7, 4, 5, 6, True), Shape("y", 7, 4, 5, 6, False)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("0,1,2", "expected sizes above 0, found '0,1,2'"),
        ("1,2", r"expected m,n,k, m,n,k,batch or a CSV file .*; found '1,2': No such file"),
        ("1,2,3,4,5", "found '1,2,3,4,5'"),
        ("128x64x32", "found '128x64x32'"),
        ("no such file.csv", "found 'no such file.csv': No such file or directory"),
        ("m,n\n1,2\n", "shapes: there is no column k; expected m,n,k"),
        ("\n# nothing\n", "there is no column m, n, k"),
        ("m,n,k\n# nothing\n", "shapes: there is no shape in it"),
        ("m,n,k\n1,2,3\n\n4,five,6\n", r"line 4: n: expected a whole number from 1 to \d+, found 'five'"),
        ("m,n,k\n1,2,0\n", "line 2: k: expected a whole number .* found '0'"),
        ("m,n,k\n1,2\n", "line 2: k: expected a whole number .* found ''"),
        ("m,n,k\n1,2,9999999999\n", "found '9999999999'"),
        ("m,n,k,b_const\n1,2,3,yes\n", "line 2: b_const: expected 0 or 1, found 'yes'"),
        ("m,n,k,batch\n1,2,3,-1\n", "line 2: batch: expected a whole number .* found '-1'"),
        ("m,n,k,name\n1,2,3,a\n4,5,6,a\n", "line 3: there is a shape 'a' already"),
    ],
)
def test_what_is_wrong_is_said(given: str, message: str):
    with pytest.raises(OptionError, match=message):
        read_shapes(given)


def test_what_is_no_text_is_no_file_of_shapes(tmp_path: Path):
    path = tmp_path / "picture.csv"
    path.write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(OptionError, match=r"picture\.csv"):
        read_shapes(path)
    with pytest.raises(OptionError, match="Is a directory"):
        read_shapes(tmp_path)
