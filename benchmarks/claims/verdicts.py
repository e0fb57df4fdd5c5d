"""Rules that decide whether a claim of the paper holds.

Two rows differ only if their difference exceeds the noise of both seeds and test documents:

- seeds: the 95 % bound t · sqrt(s²/n + s²/m) with s the standard deviation over seeds, pooled over all rows of
  the corpus with several seeds. A corpus without such rows uses the largest s of the other corpora.
- documents: the paired bootstrap on the test documents, if the measure has a value for each document; 95 % of the
  resamples must lie on one side of zero.

A row whose training was cut before its validation score had flattened, and files without outcomes per document, decide
nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from orderfree.experiments.paper import Row
from orderfree.experiments.result_files import Result
from orderfree.metrics.resampling import interval

from .measures import drawn, has_documents, on_scale, outcomes, value

Verdict = Literal["holds", "does not hold", "cannot be told"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
UNTOLD: Verdict = "cannot be told"
Outcome = Literal["ahead", "behind", "inside the noise", "unknown"]
LEVEL = 0.975  # quantile of a two-sided 95 % bound


@dataclass(frozen=True, slots=True)
class Side:
    row: Row
    measure: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The claim that `first` is higher than `second`."""

    first: Side
    second: Side


@dataclass(frozen=True, slots=True)
class Noise:
    deviation: float  # standard deviation over seeds
    degrees: int  # of freedom
    source: str  # the corpus on which it was measured

    def bar(self, first_seeds: int, second_seeds: int) -> float:
        spread = self.deviation * (1 / first_seeds + 1 / second_seeds) ** 0.5
        return float(stdtrit(self.degrees, LEVEL)) * spread


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one comparison; `reason` says why it is unknown."""

    comparison: Comparison
    outcome: Outcome
    means: tuple[float | None, float | None] = (None, None)
    difference: float | None = None  # on the scale of the measure
    bar: float | None = None
    documents: tuple[float, float] | None = None  # the interval with 95 % of the resamples
    seeds: tuple[int, int] = (0, 0)
    noise_from: str = ""
    reason: str = ""


def was_cut(result: Result) -> bool:
    """Whether training was ended from outside before the validation score had stopped rising."""
    return (result.cut_short or ended_by(result) == "budget") and not result.flattened


def ended_by(result: Result) -> str:
    """patience, cap, budget or nothing to descend; for older files it is derived from other fields."""
    if result.ended_by is not None:
        return result.ended_by
    if result.updates == 0:
        return "nothing to descend"
    if result.cut_short:
        return "budget"
    patience = result.config.get("training", {}).get("patience")
    later = sum(point.update > (result.kept_update or result.updates) for point in result.curve)
    return "patience" if patience is not None and later >= patience else "cap"


class Evidence:
    """Result files by corpus and method, of the one variant of each corpus that is used for its claims."""

    def __init__(self, results: Sequence[Result], variants: Mapping[str, str]) -> None:
        self.runs: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
        for result in results:
            if variants.get(result.corpus) == result.variant:
                self.runs[result.corpus][result.method].append(result)
        self._noise: dict[tuple[str, str, str], Noise | None] = {}

    def of(self, corpus: str, row: Row) -> list[Result]:
        """The runs of a row that have its decoder."""
        return [result for result in self.runs[corpus][row[0]] if row[1] in result.test]

    def compare(self, corpus: str, comparison: Comparison) -> Finding:
        first, second = comparison.first, comparison.second
        groups = self.of(corpus, first.row), self.of(corpus, second.row)
        numbers = [[value(r, s.row[1], s.measure) for r in g] for g, s in zip(groups, (first, second), strict=True)]
        if any(not group or None in values for group, values in zip(groups, numbers, strict=True)):
            return Finding(comparison, "unknown", reason=_missing(groups, comparison))
        left, right = [[number for number in values if number is not None] for values in numbers]
        scaled = [fmean(on_scale(s.measure, n) for n in values) for s, values in ((first, left), (second, right))]
        shown = Finding(
            comparison,
            "unknown",
            means=(fmean(left), fmean(right)),
            difference=scaled[0] - scaled[1],
            seeds=(len(left), len(right)),
        )
        return self._decided(corpus, shown, groups)

    def _decided(self, corpus: str, shown: Finding, groups: tuple[list[Result], list[Result]]) -> Finding:
        first, second = shown.comparison.first, shown.comparison.second
        if any(was_cut(result) for group in groups for result in group):
            return replace(shown, reason="cut before it flattened")
        if refused := _unpaired(groups, first, second):
            return replace(shown, reason=refused)
        noises = [self.noise(corpus, side.measure) for side in (first, second)]
        if None in noises:
            return replace(shown, reason="too few seeds: no row has been run twice")
        bar = max(noise.bar(*shown.seeds) for noise in noises if noise is not None)
        source = next(noise.source for noise in noises if noise is not None)
        documents = _document_interval(groups, first, second) if has_documents(first.measure) else None
        difference = shown.difference or 0.0
        one_side = documents is None or (documents[0] > 0 if difference > 0 else documents[1] < 0)
        beyond = abs(difference) > bar and one_side
        side: Literal["ahead", "behind"] = "ahead" if difference > 0 else "behind"
        outcome: Outcome = side if beyond else "inside the noise"
        return replace(shown, outcome=outcome, bar=bar, documents=documents, noise_from=source)

    def noise(self, corpus: str, measure: str) -> Noise | None:
        """The spread of the measure over seeds: on this corpus, or the largest of the other corpora."""
        here = self._measured_noise(corpus, measure)
        if here is not None:
            return here
        elsewhere = [self._measured_noise(other, measure) for other in sorted(self.runs) if other != corpus]
        return max((n for n in elsewhere if n is not None), key=lambda noise: noise.deviation, default=None)

    def _measured_noise(self, corpus: str, measure: str) -> Noise | None:
        squares, degrees = 0.0, 0
        for group in self.runs[corpus].values():
            complete = [result for result in group if not was_cut(result)]
            variances = []
            for decoder in sorted({decoder for result in complete for decoder in result.test}):
                numbers = [value(result, decoder, measure) for result in complete]
                if len(numbers) > 1 and None not in numbers:
                    variances.append(variance(on_scale(measure, number) for number in numbers if number is not None))
            if variances:  # the decoders of one model are not independent and count as one row
                squares += fmean(variances) * (len(complete) - 1)
                degrees += len(complete) - 1
        return Noise((squares / degrees) ** 0.5, degrees, corpus) if degrees else None


def judge(findings: Sequence[Finding]) -> Verdict:
    """A claim holds if all its comparisons are ahead; one that is behind refutes it."""
    seen = {finding.outcome for finding in findings}
    if "behind" in seen:
        return FAILS
    return HOLDS if seen == {"ahead"} else UNTOLD


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict over several corpora: a claim holds if it holds on all of them."""
    if FAILS in verdicts:
        return FAILS
    return HOLDS if verdicts and set(verdicts) == {HOLDS} else UNTOLD


def _missing(groups: Sequence[Sequence[Result]], comparison: Comparison) -> str:
    for group in groups:
        if not group:
            return "not run yet"
    return f"the files do not hold {comparison.first.measure}"


def _unpaired(groups: tuple[list[Result], list[Result]], first: Side, second: Side) -> str:
    """Why the test documents of two rows cannot be paired; empty if they can, or need not be."""
    sides = zip(groups, (first, second), strict=True)
    counts = [outcomes(result, side.row[1], _part(side.measure)) for group, side in sides for result in group]
    if any(outcome is None for outcome in counts):
        return "no paired test: the files keep no outcomes per document"
    truths = [outcome[:, 0] + outcome[:, 2] for outcome in counts if outcome is not None]
    if first.measure == second.measure and any(not np.array_equal(truths[0], other) for other in truths[1:]):
        return "the files are of different test documents"
    return ""


def _part(measure: str) -> str:
    """The part of the documents of a measure; measures that cannot be resampled use the whole test part."""
    kind = measure.partition("/")[0]
    return kind if has_documents(measure) and kind != "gap" else "test"


def _document_interval(
    groups: tuple[list[Result], list[Result]], first: Side, second: Side
) -> tuple[float, float] | None:
    """The interval with 95 % of the differences on resampled test documents; each row is the mean of its seeds."""
    draws = [
        np.mean([d for r in group if (d := drawn(r, side.row[1], side.measure)) is not None], axis=0)
        for group, side in zip(groups, (first, second), strict=True)
    ]
    low, high = interval(draws[0] - draws[1])
    return low, high
