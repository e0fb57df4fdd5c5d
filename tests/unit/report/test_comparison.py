"""Runs side by side: known answers from predictors that say what they are told to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from report_support import ATTACK, check_page

from orderfree.decisions.records import Decision, Decisions
from orderfree.errors import DataError
from orderfree.inference import Prediction
from orderfree.report.comparison_page import render_comparison
from orderfree.tools.compare import compare
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
        self.trained = SimpleNamespace(
            decisions=Decisions(best={metric: Decision(search) for metric, search in decisions.items()})
        )
        self.sets = sets

    def decision(self, decoder: str) -> Decision:
        return self.trained.decisions.look_up(decoder)

    def predict(self, examples: Iterable[Example], decoders: Sequence[str]) -> Iterator[Prediction]:
        for place, example in enumerate(examples):
            sets = {d: LabelSet(self.sets[self.decision(d).search][place], 0.0, ()) for d in decoders}
            yield Prediction(example, sets, None, False)


FIRST = Told(["a", "b"], {}, joint=[("a", "b"), ("a",), (), ("a",)])
SECOND = Told(
    ["a", "b", "c"], {"subset_accuracy": "beam"},
    joint=[("a",), ("b",), ("c",), ("a",)], beam=[("b", "a"), ("b",), ("c",), ("a",)],
)  # fmt: skip


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return compare({"first": FIRST, "second": SECOND}, EXAMPLES)  # type: ignore[dict-item]


def test_the_table_and_who_is_right_judge_the_same_decoder(found: dict[str, Any]) -> None:
    assert found["decoders"] == {"first": "joint", "second": "joint"}, "not beam, which is best for one metric"
    for name, by_run in found["metrics"]["subset_accuracy"].items():
        alone = found["right"]["alone"][name] + found["right"]["all"]
        assert by_run["score"] == alone / len(EXAMPLES), name


def test_scores_of_several_seeds_are_means_and_p_covers_the_training() -> None:
    right, wrong = [("a", "b"), ("b",), (), ("a",)], [(), (), (), ()]
    runs = {"first": Told(["a", "b"], {}, joint=right), "second": Told(["a", "b"], {}, joint=wrong)}
    again = {
        "first": [Told(["a", "b"], {}, joint=sets) for sets in (right, wrong)],
        "second": [Told(["a", "b"], {}, joint=sets) for sets in (wrong, right)],
    }
    once = compare(runs, EXAMPLES)["metrics"]["subset_accuracy"]  # type: ignore[arg-type]
    assert [own["score"] for own in once.values()] == [0.75, 0.0]
    met = compare(runs, EXAMPLES, retrained=again)  # type: ignore[arg-type]
    first, second = met["metrics"]["subset_accuracy"].values()
    assert first["score"] == second["score"] == 0.375
    assert first["by_seed"] == [0.75, 0.0]
    assert first["interval"] == [0.0, 0.75]
    assert second["against_first"]["difference"] == 0
    assert second["against_first"]["p"] == 1
    assert "another seed" in met["p_covers"]
    assert met["right"]["alone"] == {"first": 3, "second": 0}, "of the runs themselves"
    page = render_comparison({**met, "seeds": [1, 2], "data": "d", "paths": []}, "c")
    assert "the lowest and the highest of the seeds 1, 2" in page


def test_labels_that_are_not_known_are_not_judged(found: dict[str, Any]) -> None:
    """Unknown against absent: a prediction that nobody can judge is as if it had not been made."""
    said = Told(["a", "b"], {}, joint=[("a", "b"), ("b",)])
    silent = Told(["a", "b"], {}, joint=[("a",), ("b",)])
    examples = [Example("1", text="t", labels=("a",), unknown=("b",)), Example("2", text="t", labels=("b",))]
    met = compare({"said": said, "silent": silent}, [*examples, Example("3", text="t", unknown=None)])  # type: ignore[dict-item]
    assert met["examples"] == 2
    for by_run in met["metrics"].values():
        assert by_run["said"]["score"] == by_run["silent"]["score"] == 1.0
    with pytest.raises(DataError, match="no example has labels that are known"):
        compare({"said": said}, [Example("3", text="t", unknown=None)])  # type: ignore[dict-item]


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
    assert found["decoders"] == {"one": "beam", "two": "beam"}
    assert all(by_run["two"]["against_first"]["p"] == 1 for by_run in found["metrics"].values())


def test_the_page(found: dict[str, Any]) -> None:
    page = render_comparison({**found, "data": ATTACK, "paths": [ATTACK, "runs/second"]}, "orderfree compare")
    check_page(page)
    assert page.count("&lt;script&gt;") == 2
    assert "decoded with joint (first), joint (second)" in page
    assert "not the training" in page
    assert "Only from first: 1;" in page
