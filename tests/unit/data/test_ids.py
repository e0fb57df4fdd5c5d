"""Ids that cannot be written back."""

from __future__ import annotations

from pathlib import Path

import pytest

from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.errors import DataError


def test_half_a_character_in_an_id_is_said(tmp_path: Path) -> None:
    path = tmp_path / "half.jsonl"
    path.write_text('{"id": "\\ud800", "text": "a"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1: the field 'id' holds half a character"):
        list(read_examples(path, DataConfig(), labelled=False))
