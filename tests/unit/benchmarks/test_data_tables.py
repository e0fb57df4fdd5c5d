"""The page of data statistics: from the stored counts, with the printed figures beside them."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("data_tables", ROOT / "benchmarks" / "data_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_stored_counts(tables):
    content = json.loads(tables.COUNTS.read_text(encoding="utf-8"))
    assert list(content) == list(tables.CORPORA)
    assert tables.PAGE.read_text(encoding="utf-8") == tables.page(content)


def test_ours_and_the_printed_row_by_hand(tables):
    part = {"documents": 2, "labels": 3, "words_per_sample": 0.0, "labels_per_sample": 1.5, "label_sets": 4}
    test = part | {"documents": 1_000, "label_sets": 5, "unseen_label_sets": 6, "unseen_documents": 7}
    parts = {"train": part | {"documents": 52_588}, "valid": part, "test": test, "all": part}
    lines = tables.page({"aapd": {"parts": parts, "notes": ["First.", "Second."]}}).splitlines()
    assert "| `aapd` | here | 52,588 | 2 | 1,000 | 3 |  | 1.50 | 4 | 5 | 6 | 7 |" in lines
    assert "|  | paper | 53,840 | 1,000 | 1,000 | 54 | 163.42 | 2.41 |  | 392 | 43 |  |" in lines
    assert "- `aapd`: First. Second." in lines
