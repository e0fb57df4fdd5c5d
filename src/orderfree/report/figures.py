"""Line charts as inline SVG. Colours and fonts come from the page's style sheet, so that one drawing serves light,
dark and print; series differ in dashes as well as in colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH, HEIGHT = 420, 250  # small on purpose: scaled to a phone's width, the numbers are still legible
LEFT, RIGHT, TOP, BOTTOM = 46, 4, 12, 40
INSET = 12  # between the ends of the grid and the first and last point: room for their ticks
SERIES = 6  # styles in the style sheet; a seventh line starts over
MOST_POINTS = 150

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: list[Point]
    series: int  # style of the line; the same decoder keeps its own through the whole page


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with what stands around it."""

    title: str
    svg: Markup
    legend: list[tuple[str, int]]
    caption: str = ""


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
        """12k rather than 12,000: neighbours must not run into each other."""
        if max(map(abs, self.ticks)) < 10_000:
            return [f"{value:g}" for value in self.ticks]
        return [f"{value / 1000:g}k" if value else "0" for value in self.ticks]


def line_chart(
    title: str,
    lines: Sequence[Line],
    horizontal: str,
    caption: str = "",
    low: float | None = None,
    high: float | None = None,
    origin: float | None = None,
    mark_highest: bool = False,
) -> Chart | None:
    """`low` and `high` are numbers the vertical axis must show, `origin` one the horizontal axis must show.

    None if there is nothing to draw."""
    lines = [Line(line.name, points, line.series) for line in lines if (points := _finite(line.points))]
    if not lines:
        return None
    across = [x for line in lines for x, _ in line.points] + _given(origin)
    upward = [y for line in lines for _, y in line.points] + _given(low, high)
    first, last = min(across), max(across)
    inside = [tick for tick in ticks(first, last, whole=True) if first <= tick <= last]
    x_axis = Axis(inside, first, last, LEFT + INSET, WIDTH - RIGHT - INSET)
    y_ticks = ticks(min(upward), max(upward))
    y_axis = Axis(y_ticks, y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    parts = [*_grid(x_axis, y_axis, horizontal), *(_drawn(line, x_axis, y_axis, mark_highest) for line in lines)]
    frame = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    svg = frame.format(WIDTH, HEIGHT, _in_words(title, lines), Markup("").join(parts))
    return Chart(title, svg, [(line.name, line.series % SERIES) for line in lines], caption)


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
    """At most `MOST_POINTS` points, each the mean of as many neighbours as returned beside them."""
    points = _finite(points)  # a mean with a NaN in it would lose the whole group
    size = math.ceil(len(points) / MOST_POINTS) or 1
    if size == 1:
        return points, 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups], size


def _given(*numbers: float | None) -> list[float]:
    return [number for number in numbers if number is not None]


def _finite(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if all(map(math.isfinite, point))]


def _grid(x_axis: Axis, y_axis: Axis, horizontal: str) -> list[Markup]:
    across = Markup('<path class="grid" d="M{} {}H{}"/><text class="tick" x="{}" y="{}" text-anchor="end">{}</text>')
    below = Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>')
    parts = []
    for value, text in zip(y_axis.ticks, y_axis.written(), strict=True):
        y = y_axis.place(value)
        parts.append(across.format(LEFT, y, WIDTH - RIGHT, LEFT - 7, y + 4, text))
    for value, text in zip(x_axis.ticks, x_axis.written(), strict=True):
        parts.append(below.format(x_axis.place(value), HEIGHT - BOTTOM + 17, text))
    parts.append(below.format((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, horizontal))
    return parts


def _drawn(line: Line, x_axis: Axis, y_axis: Axis, mark_highest: bool) -> Markup:
    places = [(x_axis.place(x), y_axis.place(y)) for x, y in line.points]
    style = f"series-{line.series % SERIES}"
    path = "M" + "L".join(f"{x} {y}" for x, y in places)
    drawn = Markup('<path class="line {}" d="{}"/>').format(style, path)
    marked = places if len(places) == 1 else [min(places, key=lambda place: place[1])] if mark_highest else []
    for x, y in marked:  # a single point makes no line
        drawn += Markup('<circle class="dot {}" cx="{}" cy="{}" r="4"/>').format(style, x, y)
    return drawn


def _in_words(title: str, lines: Sequence[Line]) -> str:
    told = [f"{line.name} from {line.points[0][1]:.3g} to {line.points[-1][1]:.3g}" for line in lines]
    return f"{title}: {'; '.join(told)}."
