from __future__ import annotations

from orderfree.report.markdown import to_html

ATTACK = "<script>alert(1)</script>"


def test_headings_paragraphs_and_inline_code():
    html = to_html("# A model\n\nKnows `a` (3)\nand `b`.\n\n## Use\n\nSo.")
    assert html == ("<h3>A model</h3>\n<p>Knows <code>a</code> (3)\nand <code>b</code>.</p>\n<h3>Use</h3>\n<p>So.</p>")


def test_fenced_code_is_kept_as_it_is():
    assert to_html("```\norderfree predict <here> `x`\n```") == (
        "<pre><code>orderfree predict &lt;here&gt; `x`</code></pre>"
    )


def test_a_table_has_a_head_only_if_it_has_words():
    scores = to_html("| decoder | average |\n| --- | --- |\n| br | 0.5 |")
    assert '<thead><tr><th scope="col">decoder</th><th scope="col">average</th></tr></thead>' in scores
    assert '<tr><th scope="row">br</th><td>0.5</td></tr>' in scores
    facts = to_html("| | |\n| --- | --- |\n| seed | 1 |")
    assert "<thead>" not in facts
    assert '<tr><th scope="row">seed</th><td class="name">1</td></tr>' in facts


def test_everything_is_escaped():
    table = f"| {ATTACK} | b |\n| --- | --- |\n| {ATTACK} | `{ATTACK}` |"
    html = to_html(f"# {ATTACK}\n\n`{ATTACK}` and {ATTACK}\n\n{table}\n\n```\n{ATTACK}\n```")
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 1 + 2 + 4 + 1  # a table's head names its region as well


def test_nothing_is_nothing():
    assert to_html("") == to_html("\n \n") == ""
