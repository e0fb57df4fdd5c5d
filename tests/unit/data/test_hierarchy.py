"""Parents of labels: closed sets by hand, both formats, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from orderfree import Example
from orderfree.data.hierarchy import Hierarchy
from orderfree.errors import DataError

LABELS = ["food", "grain", "wheat", "feed", "corn"]


def read(tmp_path: Path, content: str, name: str = "h.json") -> Hierarchy:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return Hierarchy.read(path, LABELS)


def test_ancestors_follow_nearest_first_each_once(tmp_path: Path) -> None:
    hierarchy = read(tmp_path, '{"wheat": "grain", "grain": "food", "corn": ["grain", "feed"]}')
    assert hierarchy.closed(["wheat"]) == ("wheat", "grain", "food")
    assert hierarchy.closed(["food", "corn"]) == ("food", "corn", "grain", "feed")
    assert hierarchy.closed([]) == ()
    assert hierarchy.closed(hierarchy.closed(["wheat", "corn"])) == hierarchy.closed(["wheat", "corn"])
    again = read(tmp_path, "child,parent\nwheat,grain\ngrain,food\n\ncorn,grain\ncorn,feed\ncorn,feed\n", "h.csv")
    assert again == hierarchy
    example = Example("1", text="t", labels=("wheat",), unknown=("grain", "feed"))
    assert hierarchy.closed_example(example).labels == ("wheat", "grain", "food")
    assert hierarchy.closed_example(example).unknown == ("feed",)
    assert hierarchy.closed_example(Example("1", text="t", labels=(), unknown=None)).unknown is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "h.json",
            '{"wheat": "corn", "corn": "grain", "grain": "wheat"}',
            "'wheat' is its own ancestor (wheat < corn < ",
        ),
        ("h.json", '{"wheat": "wheat"}', "'wheat' is its own ancestor (wheat < wheat)"),
        (
            "h.json",
            '{"wheat": "grains"}',
            "'grains' is no label of this model; correct or remove it. Did you mean 'grain'?",
        ),
        ("h.json", '{"wheat": 3}', "the parent of 'wheat' is 3, expected a label"),
        ("h.json", "[]", "expected an object"),
        ("h.json", "{", "is not JSON"),
        ("h.csv", "wheat,grain\n", "line 1: expected CSV with the header child,parent"),
        ("h.csv", "child,parent\nwheat\n", "line 2: has 1 cells, expected 2"),
    ],
)
def test_what_is_no_hierarchy_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError) as refused:
        read(tmp_path, content, name)
    assert message in str(refused.value)
    assert str(tmp_path / name) in str(refused.value)
