"""The style of all figure files: colours, legend and file formats.

The colours are Okabe and Ito's, which colour-blind readers can distinguish, and lines also differ in dashes or markers.
The same data give the same SVG, byte for byte."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..errors import OrderfreeError
from ..system.files import writing_aside

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Arguments = ParamSpec("Arguments")
Drawn = TypeVar("Drawn")

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10.5,
    "figure.constrained_layout.use": True,
    "font.family": ["DejaVu Sans"],  # shipped with matplotlib, so the same on every machine
    "font.size": 10,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.handlelength": 3,
    "lines.linewidth": 1.6,
    "lines.markeredgecolor": "white",
    "lines.markeredgewidth": 0.6,
    "lines.markersize": 6,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",  # text stays text, for search and screen readers
    "svg.hashsalt": "orderfree",  # ids inside the SVG would be random without it
}


def _styled() -> AbstractContextManager[None]:
    """Our style over matplotlib's defaults: a user's matplotlibrc must not change the files."""
    if importlib.util.find_spec("matplotlib") is None:
        raise OrderfreeError("figures need matplotlib: install it with `pip install 'orderfree[figures]'`.")
    import matplotlib.style

    return matplotlib.style.context(["default", STYLE])


def in_style(draw: Callable[Arguments, Drawn]) -> Callable[Arguments, Drawn]:
    """Decorator that draws with our style: matplotlib reads the style whenever something is added to a figure."""

    @functools.wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Drawn:
        with _styled():
            return draw(*args, **kwargs)

    return drawn


def canvas(panels: int, title: str, width: float = 7.5) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4.2))
    figure.suptitle(title, x=0.01, ha="left", weight="bold", fontsize=12)
    return figure, [figure.add_subplot(1, panels, panel + 1) for panel in range(panels)]


def columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def legend(figure: Figure, axes: Axes) -> None:
    """Places the legend beside the axes, so that it hides no line."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center")


def save(figure: Figure, stem: Path) -> list[Path]:
    """Writes `<stem>.svg` and `<stem>.png`."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]
    with _styled():
        for path in paths:
            with writing_aside(path) as aside:
                kind = path.suffix[1:]
                figure.savefig(aside, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return paths
