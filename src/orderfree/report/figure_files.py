"""The figures of a page as SVG and PNG files for papers and slides, drawn by matplotlib from the same data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .figure_style import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, canvas, columns, in_style, legend, save
from .figures import SERIES, Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, GREY)
DASHES = ("-", "--", ":", "-.", (0, (4, 3)), (0, (8, 4)))  # close to those of the style sheet


def write_chart_files(charts: Mapping[str, Chart], folder: Path) -> list[Path]:
    """`<name>.svg` and `<name>.png` of every chart, each whole or not at all."""
    return [path for name, chart in charts.items() for path in save(draw(chart), Path(folder) / name)]


@in_style
def draw(chart: Chart) -> Figure:
    figure, (axes,) = canvas(1, chart.title)
    for line in chart.lines:
        style = line.series % SERIES
        marker = "o" if len(line.points) == 1 or (chart.counts and style == 0) else None
        axes.plot(*columns(line.points), color=COLOURS[style], ls=DASHES[style], marker=marker, label=line.name)
    axes.set_ylim(*chart.range)
    axes.set_xlabel(chart.horizontal)
    if chart.counts:  # number of predictions of each point, behind the lines
        beside = axes.twinx()
        beside.set_yscale("log")
        beside.grid(visible=False)
        beside.set_ylabel("number")
        middles = [(lower + upper) / 2 for lower, upper, _ in chart.counts]
        widths = [0.9 * (upper - lower) for lower, upper, _ in chart.counts]
        beside.bar(middles, [number for _, _, number in chart.counts], widths, color=GREY, alpha=0.25)
    legend(figure, axes)
    return figure
