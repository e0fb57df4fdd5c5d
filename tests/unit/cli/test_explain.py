"""`orderfree explain-ocd`: what it prints."""

from __future__ import annotations

import pytest

from orderfree.cli.explain import explain, print_explanation


def test_labels_are_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_explanation(explain(["[/x]", "B"], ["B"], ["[/x]", "B"], 0.0, "hamming"))
    assert "[/x]" in capsys.readouterr().out
