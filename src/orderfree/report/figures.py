"""Charts as inline SVG. Colours and fonts come from the page's style sheet, so that the same drawing works on
light and dark screens and in print; series differ in dashes as well as in colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

WIDTH, HEIGHT = 420, 250  # small, so that the numbers are legible when scaled to the width of a phone
LEFT, RIGHT, TOP, BOTTOM = 46, 4, 12, 40
INSET = 12  # from the ends of the grid to the first and last point, for their ticks
SERIES = 6  # number of line styles in the style sheet, used cyclically
MOST_POINTS = 150
PLOT, STRIP, GAP = 250, 46, 22  # heights of a plot of shares, of the bars below it, and of the space between them
IDEAL = 5  # style of a line that shows no data

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: list[Point]
    series: int  # style of the line; a decoder has the same style on the whole page
    dots: Sequence[Point] = ()  # points of it to mark


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its title, legend and caption."""

    title: str
    svg: Markup
    legend: list[tuple[str, int]]
    caption: str = ""
    # its data, for figure files
    lines: Sequence[Line] = ()
    horizontal: str = ""
    range: tuple[float, float] = (0.0, 1.0)  # the ends of the vertical axis
    counts: Sequence[tuple[float, float, int]] = ()  # lower end, upper end and height of the bars below the plot


@dataclass(frozen=True, slots=True)
class Axis:
    """One side of the drawing: the number `low` at pixel `start`, `high` at pixel `end`."""

    ticks: list[float]
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.start + share * (self.end - self.start), 1)

    def written(self) -> list[str]:
        """12k instead of 12,000, so that neighbouring numbers do not overlap."""
        if max(map(abs, self.ticks)) < 10_000:
            return [f"{value:g}" for value in self.ticks]
        return [f"{value / 1000:g}k" if value else "0" for value in self.ticks]


def line_chart(
    title: str,
    lines: Sequence[Line],
    horizontal: str,
    caption: str = "",
    upward: Sequence[float] = (),
    across: Sequence[float] = (),
    mark_highest: bool = False,
    whole: bool = True,
) -> Chart | None:
    """`upward` are numbers that the vertical axis must show, `across` those of the horizontal axis, which has whole
    numbers only unless told otherwise.

    None if there is nothing to draw."""
    lines = [replace(line, points=points) for line in lines if (points := _finite(line.points))]
    if not lines:
        return None
    across = [x for line in lines for x, _ in line.points] + [*across]
    upward = [y for line in lines for _, y in line.points] + [*upward]
    first, last = min(across), max(across)
    inside = [tick for tick in ticks(first, last, whole=whole) if first <= tick <= last]
    x_axis = Axis(inside, first, last, LEFT + INSET, WIDTH - RIGHT - INSET)
    y_ticks = ticks(min(upward), max(upward))
    y_axis = Axis(y_ticks, y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = [
        _across(y_axis, y_axis.written()),
        _below(x_axis, horizontal, HEIGHT),
        *(_drawn(line, x_axis, y_axis, mark_highest) for line in lines),
    ]
    svg = _framed(HEIGHT, _in_words(title, lines), parts)
    named = [(line.name, line.series % SERIES) for line in lines]
    return Chart(title, svg, named, caption, lines, horizontal, (y_axis.low, y_axis.high))


def reliability_chart(title: str, rows: Sequence[dict[str, Any]], horizontal: str, caption: str = "") -> Chart | None:
    """Share of true cells against predicted probability, from `metrics.calibration.reliability`; on the diagonal both
    are equal. The bars below show the number of predictions of each point on a logarithmic scale, because most
    predictions are near 0.

    None if there is nothing to draw."""
    points = [(row["mean_probability"], row["share_true"]) for row in rows]
    if not points:
        return None
    shares = ticks(0, 1)
    bars_top = TOP + PLOT + GAP
    height = bars_top + STRIP + BOTTOM
    x_axis = Axis(shares, 0, 1, LEFT + INSET, WIDTH - RIGHT - INSET)
    y_axis = Axis(shares, 0, 1, TOP + PLOT, TOP)
    power = math.ceil(math.log10(max(10, *(row["count"] for row in rows))))
    numbers = [0, 10 ** (power // 2), 10**power]
    heights = [math.log10(1 + number) for number in numbers]  # 0 stays 0, and 1 is visible
    count_axis = Axis(heights, 0, heights[-1], bars_top + STRIP, bars_top)
    ideal = Line("calibrated", [(0, 0), (1, 1)], IDEAL)
    measured = Line("as it was", points, 0, points)
    parts = [
        _across(y_axis, y_axis.written()),
        _across(count_axis, [_short(number) for number in numbers]),
        _below(x_axis, horizontal, height),
        *(_bar(row, x_axis, count_axis) for row in rows),
        *(_drawn(line, x_axis, y_axis, mark_highest=False) for line in (ideal, measured)),
    ]
    told = "; ".join(f"predicted {predicted:.2f}, true {true:.2f}" for predicted, true in points)
    svg, named = _framed(height, f"{title}: {told}.", parts), [(measured.name, 0), (ideal.name, IDEAL)]
    counts = [(row["lower"], row["upper"], row["count"]) for row in rows]
    return Chart(title, svg, named, caption, (ideal, measured), horizontal, counts=counts)


def ticks(low: float, high: float, about: int = 5, whole: bool = False) -> list[float]:
    """Round numbers from at most `low` to at least `high`, 1, 2 or 5 times a power of ten apart."""
    if high <= low:
        high = low + 1
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    if whole:
        step = max(step, 1.0)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def thinned(points: Sequence[Point]) -> tuple[list[Point], int]:
    """At most `MOST_POINTS` points, each the mean of a group of neighbours, and the size of these groups."""
    points = _finite(points)  # a NaN would make the mean of its group NaN
    size = math.ceil(len(points) / MOST_POINTS) or 1
    if size == 1:
        return points, 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups], size


def _finite(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if all(map(math.isfinite, point))]


def _framed(height: int, in_words: str, parts: Sequence[Markup]) -> Markup:
    frame = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return frame.format(WIDTH, height, in_words, Markup("").join(parts))


def _across(axis: Axis, texts: Sequence[str]) -> Markup:
    """A line at every tick of a vertical axis."""
    rule = Markup('<path class="grid" d="M{} {}H{}"/><text class="tick" x="{}" y="{}" text-anchor="end">{}</text>')
    rules = [(axis.place(value), text) for value, text in zip(axis.ticks, texts, strict=True)]
    return Markup("").join(rule.format(LEFT, y, WIDTH - RIGHT, LEFT - 7, y + 4, text) for y, text in rules)


def _below(axis: Axis, horizontal: str, height: int) -> Markup:
    """The numbers and the title of the horizontal axis."""
    word = Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>')
    numbers = [
        word.format(axis.place(value), height - BOTTOM + 17, text)
        for value, text in zip(axis.ticks, axis.written(), strict=True)
    ]
    return Markup("").join([*numbers, word.format((LEFT + WIDTH - RIGHT) / 2, height - 6, horizontal)])


def _drawn(line: Line, x_axis: Axis, y_axis: Axis, mark_highest: bool) -> Markup:
    pixels = [(x_axis.place(x), y_axis.place(y)) for x, y in line.points]
    style = f"series-{line.series % SERIES}"
    path = "M" + "L".join(f"{x} {y}" for x, y in pixels)
    drawn = Markup('<path class="line {}" d="{}"/>').format(style, path)
    marked = [(x_axis.place(x), y_axis.place(y)) for x, y in line.dots]
    if not marked and (mark_highest or len(pixels) == 1):  # a single point has no line
        marked = [min(pixels, key=lambda pixel: pixel[1])]
    for x, y in marked:
        drawn += _dot(x, y, style)
    return drawn


def _dot(x: float, y: float, style: str) -> Markup:
    return Markup('<circle class="dot {}" cx="{}" cy="{}" r="4"/>').format(style, x, y)


def _bar(row: dict[str, Any], x_axis: Axis, count_axis: Axis) -> Markup:
    left, right = x_axis.place(row["lower"]) + 1, x_axis.place(row["upper"]) - 1
    bottom, top = count_axis.start, count_axis.place(math.log10(1 + row["count"]))
    return Markup('<path class="count" d="M{:.1f} {}V{}H{:.1f}V{}Z"/>').format(left, bottom, top, right, bottom)


def _short(number: int) -> str:
    size, unit = next(((size, unit) for size, unit in ((10**6, "M"), (1000, "k")) if number >= size), (1, ""))
    return f"{number // size}{unit}"


def _in_words(title: str, lines: Sequence[Line]) -> str:
    told = [f"{line.name} from {line.points[0][1]:.3g} to {line.points[-1][1]:.3g}" for line in lines]
    return f"{title}: {'; '.join(told)}."
