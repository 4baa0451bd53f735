from __future__ import annotations

from xml.etree import ElementTree

from tests.bench.plot import Bar, Chart, svg

SVG = "{http://www.w3.org/2000/svg}"
CHARTS = [
    Chart("Rates", [Bar("slow & steady", 500), Bar("fast", 2000.4)]),
    Chart("Nothing measured", []),
    Chart("Lateness", [Bar("none", 0)]),
]


def drawn() -> ElementTree.Element:
    return ElementTree.fromstring(svg(CHARTS, 'rates & "lateness"'))


def test_bars_are_as_long_as_their_values() -> None:
    bars = [float(rect.attrib["width"]) for rect in drawn().iter(f"{SVG}rect")][1:]
    assert len(bars) == 3
    assert abs(bars[0] / bars[1] - 500 / 2000.4) < 0.001
    assert bars[2] >= 1, "a bar of zero is visible"


def test_bars_have_labels_and_numbers_and_charts_without_bars_are_left_out() -> None:
    texts = [text.text for text in drawn().iter(f"{SVG}text")]
    assert texts == ["Rates", "slow & steady", "500", "fast", "2,000", "Lateness", "none", "0"]


def test_everything_lies_within_the_picture_on_a_background_of_its_own() -> None:
    root = drawn()
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    background, *bars = root.iter(f"{SVG}rect")
    assert (float(background.attrib["width"]), float(background.attrib["height"])) == (width, height)
    assert background.attrib["fill"] == "#fff"
    for bar in bars:
        x, y, length, thickness = (float(bar.attrib[name]) for name in ("x", "y", "width", "height"))
        assert x + length < width
        assert y + thickness < height
    assert root.attrib["aria-label"] == 'rates & "lateness"'
