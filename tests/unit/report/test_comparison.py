"""Runs side by side: known answers from predictors that say what they are told to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from report_support import ATTACK, check_page

from orderfree.comparison import compare
from orderfree.inference import Prediction
from orderfree.report.compare import render_comparison
from orderfree.types import Example, LabelSet

EXAMPLES = [
    Example(id="1", text="one", labels=("a", "b")),
    Example(id="2", text="two", labels=("b",)),
    Example(id="3", text="three", labels=("new",)),
    Example(id="4", text="four", labels=("a",)),
]


class Told:
    """Predicts given sets, decoder by decoder."""

    default_decoder = "joint"

    def __init__(self, labels: Sequence[str], decisions: dict[str, str], **sets: list[tuple[str, ...]]) -> None:
        self.labels = SimpleNamespace(names=tuple(labels))
        self.trained = SimpleNamespace(decisions=decisions)
        self.sets = sets

    def resolve(self, decoder: str) -> tuple[str, str]:
        metric = decoder.removeprefix("best:")
        return self.trained.decisions.get(metric, decoder), metric

    def predict(self, examples: Iterable[Example], decoders: Sequence[str]) -> Iterator[Prediction]:
        for place, example in enumerate(examples):
            sets = {d: LabelSet(self.sets[self.resolve(d)[0]][place], 0.0, ()) for d in decoders}
            yield Prediction(example, sets, None, False)


FIRST = Told(["a", "b"], {}, joint=[("a", "b"), ("a",), (), ("a",)])
SECOND = Told(
    ["a", "b", "c"], {"subset_accuracy": "beam"},
    joint=[("a",), ("b",), ("c",), ("a",)], beam=[("b", "a"), ("b",), ("c",), ("a",)],
)  # fmt: skip


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return compare({"first": FIRST, "second": SECOND}, EXAMPLES)  # type: ignore[dict-item]


def test_every_metric_is_judged_with_its_own_decoder(found: dict[str, Any]) -> None:
    exact = found["metrics"]["subset_accuracy"]
    assert (exact["first"]["score"], exact["second"]["score"]) == (0.5, 0.75)
    assert found["decoders"]["second"] == {
        "macro_f1": "joint", "micro_f1": "joint", "example_f1": "joint", "hamming_accuracy": "joint",
        "subset_accuracy": "beam",
    }  # fmt: skip


def test_all_are_compared_with_the_first(found: dict[str, Any]) -> None:
    for by_run in found["metrics"].values():
        assert by_run["first"]["against_first"] is None
        apart = by_run["second"]["score"] - by_run["first"]["score"]
        assert by_run["second"]["against_first"]["difference"] == pytest.approx(apart)


def test_labels_are_those_of_all_runs_and_of_the_data(found: dict[str, Any]) -> None:
    assert found["labels"] == 4
    assert found["unseen_labels"] == ["new"]
    # b: missed once by the first (F1 2/3), once by the second; a: one false alarm of the first (4/5)
    by_label = {row["label"]: row["f1"] for row in found["per_label"]}
    assert list(by_label) == ["a", "b", "new"], "where they differ most comes first; c is true nowhere"
    assert by_label["a"] == pytest.approx({"first": 4 / 5, "second": 1.0})
    assert by_label["b"] == pytest.approx({"first": 2 / 3, "second": 2 / 3})


def test_who_is_right_alone(found: dict[str, Any]) -> None:
    assert found["right"] == {"all": 1, "none": 1, "alone": {"first": 1, "second": 1}}
    assert [example["id"] for example in found["disagreements"]] == ["1", "2"]
    assert found["disagreements"][0]["predicted"] == {"first": ["a", "b"], "second": ["a"]}


def test_a_decoder_named_is_used_for_all() -> None:
    beam = Told(["a"], {"micro_f1": "joint"}, joint=[()] * 4, beam=[("a",)] * 4)
    found = compare({"one": beam, "two": beam}, EXAMPLES, "beam")  # type: ignore[dict-item]
    assert set(found["decoders"]["one"].values()) == {"beam"}
    assert all(by_run["two"]["against_first"]["p"] == 1 for by_run in found["metrics"].values())


def test_the_page(found: dict[str, Any]) -> None:
    page = render_comparison({**found, "data": ATTACK, "paths": [ATTACK, "runs/second"]}, "orderfree compare")
    check_page(page)
    assert page.count("&lt;script&gt;") == 2
    assert "0.7500" in page
    assert "Only first: 1;" in page
