from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from orderfree.report.figures import MOST_POINTS, Axis, Line, line_chart, reliability_chart, thinned, ticks


def test_ticks_are_round_and_enclose_the_data():
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert ticks(0.43, 0.74) == [0.4, 0.5, 0.6, 0.7, 0.8]
    assert ticks(0, 7.8) == [0, 2, 4, 6, 8]
    assert ticks(1, 3, whole=True) == [1, 2, 3]


@pytest.mark.parametrize("value", [0.0, 0.7, -3.0, 12_345.0])
def test_ticks_of_a_single_value(value):
    numbers = ticks(value, value)
    assert len(numbers) > 1
    assert numbers[0] <= value <= numbers[-1]


def test_an_axis_places_its_ends():
    axis = Axis(ticks=[0, 1], low=0, high=1, start=200, end=10)
    assert (axis.place(0), axis.place(0.5), axis.place(1)) == (200, 105, 10)


def test_large_ticks_are_shortened_all_alike():
    assert Axis([0, 5000, 10_000], 0, 10_000, 0, 1).written() == ["0", "5k", "10k"]
    assert Axis([0, 500, 1000], 0, 1000, 0, 1).written() == ["0", "500", "1000"]


def test_thinned_keeps_short_lines_and_averages_long_ones():
    assert thinned([(1, 5.0), (2, 7.0)]) == ([(1, 5.0), (2, 7.0)], 1)
    points, size = thinned([(float(x), 2.0 * x) for x in range(2 * MOST_POINTS)])
    assert (len(points), size) == (MOST_POINTS, 2)
    assert points[:2] == [(0.5, 1.0), (2.5, 5.0)]


def test_a_chart_is_well_formed_and_says_itself_in_words():
    chart = line_chart("Loss <x>", [Line("a & b", [(1, 3.0), (2, 1.0)], 7)], "updates", upward=[0])
    assert chart is not None
    svg = ElementTree.fromstring(chart.svg)
    assert svg.attrib["aria-label"] == "Loss <x>: a & b from 3 to 1."
    assert chart.legend == [("a & b", 1)]
    assert "series-1" in chart.svg


def test_the_highest_point_and_single_points_are_dots():
    rising, single = Line("rising", [(1, 0.1), (2, 0.4), (3, 0.3)], 0), Line("single", [(2, 0.2)], 1)
    marked = line_chart("F1", [rising, single], "updates", mark_highest=True)
    unmarked = line_chart("F1", [rising, single], "updates")
    assert marked is not None
    assert unmarked is not None
    assert marked.svg.count("<circle") == 2
    assert unmarked.svg.count("<circle") == 1


def test_nothing_finite_is_no_chart():
    assert line_chart("Loss", [Line("total", [(1, math.nan), (2, math.inf)], 0), Line("br", [], 1)], "updates") is None


def reliability_row(lower: float, predicted: float, true: float, count: int) -> dict[str, float]:
    return {"lower": lower, "upper": lower + 0.5, "mean_probability": predicted, "share_true": true, "count": count}


def test_reliability_is_a_point_and_a_bar_for_every_bin():
    rows = [reliability_row(0.0, 0.01, 0.002, 31_000), reliability_row(0.5, 0.9, 0.95, 1)]
    chart = reliability_chart("True", rows, "predicted")
    assert chart is not None
    svg = ElementTree.fromstring(chart.svg)
    assert svg.attrib["aria-label"] == "True: predicted 0.01, true 0.00; predicted 0.90, true 0.95."
    assert [name for name, _ in chart.legend] == ["as it was", "calibrated"]
    assert len(svg.findall("circle")) == 2
    assert len([path for path in svg.findall("path") if path.attrib["class"] == "count"]) == 2
    assert [text.text for text in svg.findall("text")][6:9] == ["0", "100", "100k"]
    first, second = svg.findall("circle")
    assert float(first.attrib["cy"]) > float(second.attrib["cy"])  # SVG counts downwards


@pytest.mark.parametrize(("count", "top"), [(1, "10"), (10, "10"), (11, "100"), (5_000, "10k"), (2_000_000, "10M")])
def test_the_highest_bar_is_below_a_power_of_ten(count, top):
    chart = reliability_chart("True", [reliability_row(0.0, 0.2, 0.3, count)], "predicted")
    assert chart is not None
    assert [text.text for text in ElementTree.fromstring(chart.svg).findall("text")][8] == top


def test_no_bins_are_no_reliability_chart():
    assert reliability_chart("True", [], "predicted") is None
