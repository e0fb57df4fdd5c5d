"""The code of docs/how_to/spark.md, run as it stands but for the three paths."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from e2e_support import Cli, Toy

pytest.importorskip("pyspark", reason="pyspark is not installed: make spark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

RECIPE = Path(__file__).parents[2] / "docs" / "how_to" / "spark.md"


def test_the_recipe_predicts_what_predict_does(
    cli: Cli, toy: Toy, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    cli("convert", toy.test, tmp_path / "big.parquet").worked()
    cli("predict", model, tmp_path / "big.parquet", "--out", tmp_path / "plain.parquet").worked()
    blocks = re.findall(r"```python\n(.*?)```", RECIPE.read_text(encoding="utf-8"), re.DOTALL)
    code = "\n".join(blocks)
    for told, real in (("runs/news", model), ("big/*.parquet", tmp_path / "big.parquet"), ("labelled", tmp_path / "o")):
        assert f'"{told}"' in code
        code = code.replace(f'"{told}"', repr(str(real)))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        exec(compile(code, str(RECIPE), "exec"), {"__name__": "recipe"})
    finally:
        spark.stop()
    plain = {row["id"]: row for row in pq.read_table(tmp_path / "plain.parquet").to_pylist()}
    found = pq.read_table(tmp_path / "o").to_pylist()
    assert sorted(row["id"] for row in found) == sorted(plain)
    for row in found:
        assert row["labels"] == plain[row["id"]]["labels"]
        assert row["log_prob"] == pytest.approx(plain[row["id"]]["log_prob"], abs=1e-5)
