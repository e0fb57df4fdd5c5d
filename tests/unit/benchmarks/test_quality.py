"""The benchmark that sets orderfree beside other systems: its arithmetic, and one small run of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from orderfree.config import DataConfig
from orderfree.data.readers import read_examples
from orderfree.data.writers import write_examples
from orderfree.metrics.at_k import top_labels
from orderfree.metrics.scores import scores
from orderfree.testing.toy import toy_corpus
from orderfree.training.loop import Stop

QUALITY = Path(__file__).parents[3] / "benchmarks" / "quality"
sys.path.insert(0, str(QUALITY))  # its modules are scripts that lie side by side

import baselines  # noqa: E402
import cell as cell_process  # noqa: E402
import decisions  # noqa: E402
import judge  # noqa: E402
import run  # noqa: E402
import systems  # noqa: E402
import table  # noqa: E402
import thresholds  # noqa: E402
import trees  # noqa: E402
from layout import METRICS, Cell  # noqa: E402

TARGETS = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 0]], dtype=bool)  # the last label is never true
PREDICTIONS = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0]], dtype=bool)


def random_sets(seed: int, examples: int = 40, labels: int = 7, share: float = 0.2) -> np.ndarray:
    return np.random.default_rng(seed).random((examples, labels)) < share


@pytest.mark.parametrize("at_least_one", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_threshold_is_the_best_of_all(seed: int, at_least_one: bool) -> None:
    targets = random_sets(seed, examples=8, labels=4, share=0.3)
    found = np.random.default_rng(seed).normal(size=targets.shape).round(1)  # rounded: some are equal
    reached = []
    for threshold in [*np.unique(found), found.max() + 1]:
        reached.append(scores(targets, thresholds.sets_at(found, threshold, at_least_one)))
    for metric, cut in thresholds.best_thresholds(found, targets, at_least_one).items():
        assert cut.value == pytest.approx(max(row[metric] for row in reached))
        chosen = thresholds.sets_at(found, cut.threshold, at_least_one)
        assert scores(targets, chosen)[metric] == pytest.approx(cut.value)


def test_labels_on_different_scales_have_thresholds_of_their_own() -> None:
    """Each label is told exactly by a threshold, but by another one; no single threshold serves both."""
    generator = np.random.default_rng(1)
    targets = np.column_stack([generator.random(400) < 0.5, generator.random(400) < 0.5])
    found = np.where(targets, [5.0, 1.0], [3.0, -1.0]) + 0.1 * generator.normal(size=targets.shape)
    one = thresholds.best_thresholds(found, targets, at_least_one=False)
    each = thresholds.best_cuts(found, sparse.csr_array(targets), at_least_one=False)
    for metric in METRICS:
        assert one[metric].value < 0.85
        assert each[metric].value == pytest.approx(1.0)
        said = thresholds.sets_at(found, each[metric].threshold, at_least_one=False)
        assert scores(targets, said)[metric] == pytest.approx(1.0)


def test_one_threshold_is_kept_where_labels_tell_nothing_of_their_own() -> None:
    generator = np.random.default_rng(2)
    targets = generator.random((300, 20)) < 0.03
    found = targets + generator.normal(size=targets.shape)
    cuts = thresholds.best_cuts(found, sparse.csr_array(targets), at_least_one=False)
    assert isinstance(cuts["micro_f1"].threshold, float)


def test_c_is_looked_for_until_its_best_value_is_inside() -> None:
    best = dict(zip(METRICS, (1.0, 8.0, 1 / 8, 2.0, 1e9), strict=True))

    def cuts_at(c: float) -> dict[str, thresholds.Cut]:
        return {metric: thresholds.Cut(0.0, -abs(np.log(c / at))) for metric, at in best.items()}

    tried = baselines.search_c(cuts_at, 1.0, highest=64.0)
    for metric, at in best.items():
        expected = min(at, 64.0)
        assert max(tried, key=lambda c: tried[c][metric].value) == expected
        assert expected == 64.0 or {expected / 2, expected * 2} <= tried.keys()


def test_one_label_is_given_where_none_reaches_the_threshold() -> None:
    found = np.array([[0.1, 0.3], [0.9, 0.8]])
    assert thresholds.sets_at(found, 0.5, at_least_one=True).toarray().tolist() == [[False, True], [True, True]]
    assert thresholds.sets_at(found, 0.5, at_least_one=False).toarray().tolist() == [[False, False], [True, True]]


@pytest.mark.parametrize("at_least_one", [True, False])
def test_labels_that_are_not_scored_are_in_no_set(at_least_one: bool) -> None:
    """Sparse scores are as dense ones of which all others lie below any threshold."""
    generator = np.random.default_rng(3)
    targets = random_sets(3, examples=30, labels=12)
    scored = generator.random(targets.shape) < 0.3
    found = sparse.csr_array(np.where(scored, generator.random(targets.shape).round(1) + 0.1, 0.0))
    lowest = np.where(scored, found.toarray(), -np.inf)
    cuts = thresholds.best_thresholds(found, sparse.csr_array(targets), at_least_one)
    for threshold in (0.0, 0.35, 0.7):
        sets = thresholds.sets_at(found, threshold, at_least_one).toarray()
        expected = lowest >= threshold
        if at_least_one:
            has_scores = scored.any(axis=1)
            expected[has_scores, lowest[has_scores].argmax(axis=1)] = True
        assert (sets == expected).all()
        for metric, cut in cuts.items():
            assert scores(targets, sets)[metric] <= cut.value + 1e-12
            reached = scores(targets, thresholds.sets_at(found, cut.threshold, at_least_one))
            assert reached[metric] == pytest.approx(cut.value)


@pytest.mark.parametrize("metric", decisions.METRICS)
def test_counts_of_labels_are_enough_to_judge_candidates_by(metric: str) -> None:
    targets, tried = random_sets(1), np.stack([random_sets(seed) for seed in (2, 3)])  # (N, L), (C, N, L)
    said = decisions.Said(tried.sum(axis=2), (tried & targets).sum(axis=2), targets.sum(axis=1))
    assert said.value(metric, 7) == pytest.approx([scores(targets, sets)[metric] for sets in tried])
    drawn = np.random.default_rng(4).integers(0, 40, 40)  # examples, some of them more than once
    counted = np.bincount(drawn, minlength=40)[:, None].repeat(2, axis=1)
    again = [scores(targets[drawn], sets[drawn])[metric] for sets in tried]
    assert said.value(metric, 7, counted)[:, 0] == pytest.approx(again)


def test_rules_choose_as_they_say() -> None:
    """Three thresholds of `marginal`, of which one is right about one example more than `joint`, and `br`."""
    names = np.array(["marginal", "marginal", "marginal", "joint", "br"])
    right = np.zeros((5, 100), dtype=int)
    for candidate, hits in enumerate((60, 81, 60, 80, 75)):
        right[candidate, :hits] = 1
    right[3] = right[3, ::-1]  # other examples than the others are right about
    said = decisions.Said(np.ones_like(right), right, np.ones(100, dtype=int))
    given = (names, said, "micro_f1", 10)
    assert decisions.highest(*given) == 1
    assert decisions.smoothed(*given, reach=1) == 3
    assert decisions.favourite(*given, errors=1.0) == 3  # level with the best, and before it in the list
    assert decisions.favourite(*given, errors=0.0) == 1
    assert decisions.always(*given, decoder="br") == 4


def test_sets_read_back_as_they_were_written(tmp_path: Path) -> None:
    judge.save_sets(tmp_path / "sets.npz", PREDICTIONS)
    assert (judge.load_sets(tmp_path / "sets.npz").toarray() == PREDICTIONS).all()


def test_names_of_systems() -> None:
    assert not systems.is_ours("svm")
    assert systems.is_ours("fast")
    same = systems.baseline("svm-fast-features")
    assert same is not None
    assert (same.fit, same.preset) == (baselines.svm, "fast")
    assert systems.refusal("fast", sentences=False) is None
    assert "unknown preset" in (systems.refusal("fsat", sentences=True) or "")


def test_a_system_with_a_file_of_its_own() -> None:
    assert systems.is_ours("finetuned")
    assert systems.own_file("fast") is None
    assert systems.opponents("finetuned") == ("svm", "svm-best-features")
    assert "sentences" in (systems.refusal("finetuned", sentences=False) or "")
    config = systems.our_config("finetuned", ["seed=7"])
    assert (config.seed, config.model.encoder) == (7, "hybrid")


def separable(examples: int = 60, labels: int = 4) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Features that tell the labels, of which the last has a single example."""
    targets = random_sets(7, examples, labels, share=0.4)
    targets[:, -1] = np.arange(examples) == 5
    noise = np.random.default_rng(8).random((examples, 3))
    return sparse.csr_matrix(np.hstack([targets, noise]).astype(float)), targets


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")  # LibMultiLabel's own
@pytest.mark.parametrize("name", ["chain", "libmultilabel-1vsrest", "libmultilabel-thresholding"])
def test_systems_of_others_learn_what_can_be_learned(name: str, tmp_path: Path) -> None:
    if name.startswith("libmultilabel"):
        pytest.importorskip("libmultilabel.linear")
    features, targets = separable()
    job = baselines.Job(tmp_path, tmp_path, tmp_path, seed=1, threads=1)
    fitted = baselines.BASELINES[name].fit(features, sparse.csr_array(targets), 4.0, job)
    right = (fitted.score(features) > 0) == targets
    assert right[:, :-1].mean() > 0.95
    assert fitted.bytes >= 8 * targets.shape[1] * features.shape[1]


@pytest.mark.parametrize("name", list(trees.TREES))
def test_label_trees_learn_what_can_be_learned(name: str, tmp_path: Path) -> None:
    pytest.importorskip(name)
    features, targets = separable(examples=200, labels=6)
    job = baselines.Job(tmp_path, tmp_path, tmp_path, seed=1, threads=1)
    fitted = trees.TREES[name].fit(features, sparse.csr_array(targets), 1.0, job)
    ranking = top_labels(fitted.score(features))  # (N, K)
    has_labels = targets.any(axis=1)
    first_is_true = targets[np.arange(200), ranking[:, 0]]
    assert first_is_true[has_labels].mean() > 0.95
    assert fitted.bytes > 0


def test_fasttext_learns_what_can_be_learned(tmp_path: Path) -> None:
    pytest.importorskip("fasttext")
    toy = toy_corpus(train=400, valid=100, test=40)
    for part in ("train", "valid"):
        write_examples(getattr(toy, part), tmp_path / f"{part}.jsonl", "jsonl", DataConfig())
    job = baselines.Job(tmp_path / "train.jsonl", tmp_path / "valid.jsonl", tmp_path, seed=1, threads=1)
    fitted = systems.fit_system("fasttext", job)
    said = fitted.predict(toy.test, METRICS)
    truth = cell_process.to_matrix([example.labels or () for example in toy.test], list(fitted.labels))
    assert scores(truth, said["micro_f1"])["micro_f1"] > 0.4
    assert fitted.rank(toy.test).shape[0] == 40
    assert fitted.bytes > 0
    assert not systems.is_ours("fasttext")


def test_the_preset_without_its_label_decoder() -> None:
    config = systems.our_config("fast-br", ["seed=3"])
    assert (config.seed, config.objective.sequence, config.model.encoder_options["neighbours"]) == (3, None, 30)
    assert systems.is_ours("fast-br")


def test_one_classifier_a_label_is_not_for_thousands_of_labels() -> None:
    assert "thousands" in (systems.refusal("svm", sentences=True, many_labels=True) or "")
    assert systems.refusal("omikuji", sentences=False, many_labels=True) is None
    assert systems.refusal("fast", sentences=True, many_labels=True) is None


def test_first_labels_are_judged_where_labels_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = toy_corpus(train=300, valid=80, test=40)
    files = {part: tmp_path / f"{part}.jsonl" for part in ("train", "valid", "test")}
    for part, path in files.items():
        write_examples(getattr(toy, part), path, "jsonl", DataConfig())
    monkeypatch.setattr(cell_process, "MANY_LABELS", 2)
    cell = Cell("toy", "omikuji", 1, tmp_path / "results", tmp_path / "work")
    cell_process.measure(cell, files, ("test",), threads=1)
    run.run_cell(cell, threads=1, data=None)
    result = json.loads(cell.result.read_text(encoding="utf-8"))
    part = result["parts"]["test"]
    assert 0.3 < part["at_k"]["p@3"] <= part["at_k"]["p@1"] <= 1
    assert part["scores"]["micro_f1"] > 0.3
    (row,) = [line for line in table.at_k_table({"omikuji": [result]}, "test") if line.startswith("| omikuji")]
    assert row.split(" | ")[1] == f"**{part['at_k']['p@1']:.3f}**".replace("0.", ".")


def test_parts_of_a_corpus_are_written_once(tmp_path: Path) -> None:
    files = cell_process.corpus_files("toy", tmp_path, None)
    assert list(files) == ["train", "valid", "test"]
    assert len(list(read_examples(files["test"], DataConfig(), labelled=True))) == len(toy_corpus(1).test)
    written = files["test"].stat().st_mtime_ns
    assert cell_process.corpus_files("toy", tmp_path, None) == files
    assert files["test"].stat().st_mtime_ns == written


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Results and work folder of two systems fitted on a few toy documents."""
    folder = tmp_path_factory.mktemp("quality")
    results, work = folder / "results", folder / "work"
    toy = toy_corpus(train=300, valid=80, test=80)
    files = {part: folder / f"{part}.jsonl" for part in ("train", "valid", "test")}
    for part, path in files.items():
        write_examples(getattr(toy, part), path, "jsonl", DataConfig())
    for name in ("svm", "logistic"):
        cell = Cell("toy", name, 1, results, work)
        cell_process.measure(cell, files, ("test",), threads=1)
        run.run_cell(cell, threads=1, data=None)  # measured already: only judges
    return results, work


def test_a_cell_holds_what_was_measured(places: tuple[Path, Path]) -> None:
    results, work = places
    cell = Cell("toy", "svm", 1, results, work)
    content = json.loads(cell.result.read_text(encoding="utf-8"))
    part = content["parts"]["test"]
    targets, predictions = run.load_part(cell, "test")
    assert set(predictions) == set(METRICS)
    for metric in METRICS:
        assert part["scores"][metric] == scores(targets, predictions[metric])[metric]
        low, high = part["intervals"][metric]
        assert low <= part["scores"][metric] <= high
        tried = content["choices"][metric]["tried"]
        assert content["choices"][metric]["c"] in [*tried[1:-1], baselines.HARDEST]  # never on another edge
        assert predictions[metric].sum(axis=1).min() >= 1  # every training example has a label
    assert part["scores"]["micro_f1"] > 0.4
    assert part["examples"] == 80
    for clock in ("wall", "cpu"):
        assert 0 < content["seconds"]["fit"][clock] < content["seconds"]["fit_and_search"][clock]
    assert 0 < content["libraries_bytes"] <= content["peak_bytes"]
    assert content["model_bytes"] > 0
    assert str(work) not in cell.result.read_text(encoding="utf-8")


def test_paired_tests_are_made_of_what_is_there(places: tuple[Path, Path]) -> None:
    results, work = places
    assert run.compare("toy", results, work) == []  # no preset was run
    cells = [Cell("toy", name, 1, results, work) for name in ("svm", "logistic")]
    found = run.compare_part([cells[0]], cells[0], "test")
    assert all(found["metrics"][metric]["difference"] == 0 for metric in METRICS)
    found = run.compare_part([cells[0]], cells[1], "test")
    own, other = (json.loads(cell.result.read_text(encoding="utf-8"))["parts"]["test"]["scores"] for cell in cells)
    for metric in METRICS:
        assert found["metrics"][metric]["difference"] == pytest.approx(own[metric] - other[metric])


def test_paired_tests_of_predictions_that_are_gone_are_kept(places: tuple[Path, Path], tmp_path: Path) -> None:
    results, work = places
    path = tmp_path / "paired.json"
    gone, again = ({"ours": name, "theirs": "svm", "part": "test", "metrics": {}} for name in ("fast", "logistic"))
    assert run.with_earlier([again], path, "toy", results, work) == [again]  # there was no file yet
    path.write_text(json.dumps([gone, {**again, "metrics": {"micro_f1": 1}}]), encoding="utf-8")
    assert run.with_earlier([again], path, "toy", results, work) == [gone, again]
    assert run.with_earlier([], path, "toy", results, work) == [gone]  # `logistic` was run here, without its opponent


def test_tables_show_what_is_there_and_leave_the_text_around_them(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, _ = places
    page = tmp_path / "quality.md"
    monkeypatch.setattr(sys, "argv", ["table.py", "--results", str(results), "--page", str(page)])
    table.main()
    written = page.read_text(encoding="utf-8")
    rows = [line for line in written.splitlines() if line.startswith("| svm ")]
    assert len(rows) == 5  # quality, bounds, costs, choices, runs
    assert "chain" not in written
    assert "**" in written
    page.write_text(written.replace("# Quality", "Mine.\n\n# Quality") + "\nMine too.\n", encoding="utf-8")
    table.main()
    again = page.read_text(encoding="utf-8")
    assert again.startswith("Mine.")
    assert again.endswith("Mine too.\n")
    assert again.count("\n| logistic ") == 5


def test_several_seeds_are_shown_with_their_spread() -> None:
    values = {metric: [0.5] for metric in METRICS}
    rows = [("one", values), ("three", {**values, "micro_f1": [0.6, 0.7, 0.8]})]
    lines = table.quality_table(rows)
    assert lines[2] == "| one | **.500** | .500 | **.500** | **.500** | **.5000** |"
    assert lines[3] == "| three | **.500** | **.700 ± .100** | **.500** | **.500** | **.5000** |"


def test_a_cell_that_was_stopped_goes_on_and_its_seconds_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = toy_corpus(train=60, valid=20, test=20)
    files = {part: tmp_path / f"{part}.jsonl" for part in ("train", "valid", "test")}
    for part, path in files.items():
        write_examples(getattr(toy, part), path, "jsonl", DataConfig())
    cell = Cell("toy", "fast", 1, tmp_path / "results", tmp_path / "work")
    real, config = systems.train, systems.our_config
    monkeypatch.setattr(systems, "our_config", lambda name, more=(): config(name, [*more, "training.epochs=2"]))
    monkeypatch.setattr(systems, "train", lambda *some, **more: real(*some, **more, stop=Stop(requested=True)))
    with pytest.raises(SystemExit, match=r"stopped at update 1 of \d+; saved; goes on next time"):
        cell_process.measure(cell, files, ("test",), threads=1)
    spent = cell_process.spent_before(cell.folder)
    assert spent is not None
    assert spent.cpu > 0
    went_on = []

    def resumed(*some: Any, **more: Any) -> Any:
        went_on.append(more["resume"])
        return real(*some, **more)

    monkeypatch.setattr(systems, "train", resumed)
    cell_process.measure(cell, files, ("test",), threads=1)
    assert went_on == [True]
    measured = json.loads(cell.measured.read_text(encoding="utf-8"))
    assert measured["seconds"]["fit"]["cpu"] > spent.cpu
    assert cell_process.spent_before(cell.folder) is None  # finished: the next one starts anew
