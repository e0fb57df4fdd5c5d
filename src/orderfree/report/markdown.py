"""The model card as HTML. Only what the card is made of: headings, paragraphs, tables, fenced and inline code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape


def to_html(text: str) -> Markup:
    """Everything is escaped: label names come from data. Headings stand below the page's own."""
    return Markup("\n").join(_block(block) for block in re.split(r"\n\s*\n", text.strip()) if block)


def _block(block: str) -> Markup:
    lines = block.strip("\n").splitlines()
    if lines[0].startswith("```"):
        return Markup("<pre><code>{}</code></pre>").format(
            "\n".join(line for line in lines if not line.startswith("```"))
        )
    if lines[0].startswith("#"):
        return Markup("<h3>{}</h3>").format(inline(block.lstrip("# ")))
    if lines[0].startswith("|"):
        return _table([_cells(line) for line in lines])
    return Markup("<p>{}</p>").format(inline(block))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _table(rows: Sequence[Sequence[str]]) -> Markup:
    """The second row only rules the first off; a head without words is left out."""
    head, body = rows[0], rows[2:]
    drawn = Markup("")
    if any(head):
        names = Markup("").join(Markup('<th scope="col">{}</th>').format(inline(cell)) for cell in head)
        drawn = Markup("<thead><tr>{}</tr></thead>").format(names)
    kind = Markup("") if any(head) else Markup(' class="name"')  # without a head the cells are words, not numbers
    lines = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            inline(name), Markup("").join(Markup("<td{}>{}</td>").format(kind, inline(cell)) for cell in cells)
        )
        for name, *cells in body
    )
    frame = Markup(
        '<div class="scroll" role="region" aria-label="{}" tabindex="0"><table>{}<tbody>{}</tbody></table></div>'
    )
    return frame.format(" ".join(head).strip() or "Facts", drawn, lines)


def inline(text: str) -> Markup:
    """Words between backticks are code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
