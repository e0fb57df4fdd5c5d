"""The paper's figures as inline SVG of an HTML page, if matplotlib is installed."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..report.figure_style import in_style
from .paper_figures import curves, frequency, positions, ranks
from .result_files import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def available() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def corpus_drawings(results: Sequence[Result], corpus: str, prefix: str) -> dict[str, str]:
    """Name of the figure -> SVG; figures without data are left out. All results must be of one variant."""
    if not available():
        return {}
    figures = {
        "positions": positions(results, corpus),
        "frequency": frequency(results, corpus),
        "ranks": ranks(results, [corpus]),
        "curves": curves(results, corpus),
    }
    return {name: inline_svg(figure, f"{prefix}-{name}") for name, figure in figures.items() if figure is not None}


def rank_drawing(results: Sequence[Result], corpora: Sequence[str], prefix: str) -> str:
    figure = ranks(results, corpora) if available() else None
    return "" if figure is None else inline_svg(figure, f"{prefix}-ranks")


@in_style
def inline_svg(figure: Figure, prefix: str) -> str:
    """The <svg> element, adapted for inclusion in an HTML page.

    The prefix makes ids unique, so that no drawing uses the markers of another one. The drawing's style sheet is
    removed, because it would apply to the whole page, and so are XML namespaces, which HTML does not need."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = svg.replace(' id="', f' id="{prefix}-').replace("url(#", f"url(#{prefix}-")
    return svg.replace('xlink:href="#', f'href="#{prefix}-').strip()
