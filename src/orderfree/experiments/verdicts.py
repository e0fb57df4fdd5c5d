"""Whether a claim of the paper holds, decided by rule.

Two rows differ only if their difference is larger than what seeds and test documents alone would make:

- seeds: the 95 % bar t · sqrt(s²/n + s²/m) with s the standard deviation over seeds, pooled over all rows of the
  corpus that have several. A corpus without such rows takes the largest s of the corpora that have them.
- documents: the paired bootstrap on the test documents, where the measure has a value for each document; 95 % of the
  draws must lie on one side of zero.

A row that was cut before it flattened, and files that keep no outcome per document, decide nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Literal

import numpy as np
from scipy.stats import t as student

from ..metrics.resampling import interval
from .measures import drawn, has_documents, on_scale, outcomes, value
from .paper import Row
from .results import Result

Verdict = Literal["holds", "does not hold", "cannot be told"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
UNTOLD: Verdict = "cannot be told"
Outcome = Literal["ahead", "behind", "inside the noise", "unknown"]
LEVEL = 0.975  # of a bar with 95 % inside


@dataclass(frozen=True, slots=True)
class Side:
    row: Row
    measure: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """`first` is said to be higher than `second`."""

    first: Side
    second: Side


@dataclass(frozen=True, slots=True)
class Noise:
    deviation: float  # standard deviation over seeds
    degrees: int  # of freedom
    source: str  # the corpus it was measured on

    def bar(self, first_seeds: int, second_seeds: int) -> float:
        spread = self.deviation * (1 / first_seeds + 1 / second_seeds) ** 0.5
        return float(student.ppf(LEVEL, self.degrees)) * spread


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one comparison; `reason` says why nothing could be."""

    comparison: Comparison
    outcome: Outcome
    means: tuple[float | None, float | None] = (None, None)
    difference: float | None = None  # on the scale of the measure
    bar: float | None = None
    documents: tuple[float, float] | None = None  # where 95 % of the draws lie
    seeds: tuple[int, int] = (0, 0)
    noise_from: str = ""
    reason: str = ""


def was_cut(result: Result) -> bool:
    """Ended from outside before the validation score had stopped rising."""
    return (result.cut_short or ended_by(result) == "budget") and not result.flattened


def ended_by(result: Result) -> str:
    """patience, cap, budget or nothing to descend; files from before this was kept are read for it."""
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
    """Result files by corpus and method, each corpus at the one size its claims are judged at."""

    def __init__(self, results: Sequence[Result], variants: Mapping[str, str]) -> None:
        self.runs: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
        for result in results:
            if variants.get(result.corpus) == result.variant:
                self.runs[result.corpus][result.method].append(result)
        self._noise: dict[tuple[str, str, str], Noise | None] = {}

    def of(self, corpus: str, row: Row) -> list[Result]:
        """The runs of a row that hold its decoder."""
        return [result for result in self.runs[corpus][row[0]] if row[1] in result.test]

    def compare(self, corpus: str, comparison: Comparison) -> Finding:
        first, second = comparison.first, comparison.second
        groups = self.of(corpus, first.row), self.of(corpus, second.row)
        numbers = [[value(r, s.row[1], s.measure) for r in g] for g, s in zip(groups, (first, second), strict=True)]
        if any(not group or None in found for group, found in zip(groups, numbers, strict=True)):
            return Finding(comparison, "unknown", reason=_missing(groups, comparison))
        left, right = [[number for number in found if number is not None] for found in numbers]
        scaled = [fmean(on_scale(s.measure, n) for n in found) for s, found in ((first, left), (second, right))]
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
        """How much seeds alone move the measure: here, or in the worst of the other corpora."""
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
            if variances:  # the decoders of one model are not independent: they count as one row
                squares += fmean(variances) * (len(complete) - 1)
                degrees += len(complete) - 1
        return Noise((squares / degrees) ** 0.5, degrees, corpus) if degrees else None


def judge(findings: Sequence[Finding]) -> Verdict:
    """Every comparison must be ahead for a claim to hold; one that is behind refutes it."""
    found = {finding.outcome for finding in findings}
    if "behind" in found:
        return FAILS
    return HOLDS if found == {"ahead"} else UNTOLD


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Of a claim on several corpora: it holds where it holds on all of them."""
    if FAILS in verdicts:
        return FAILS
    return HOLDS if verdicts and set(verdicts) == {HOLDS} else UNTOLD


def _missing(groups: Sequence[Sequence[Result]], comparison: Comparison) -> str:
    for group in groups:
        if not group:
            return "not run yet"
    return f"the files do not hold {comparison.first.measure}"


def _unpaired(groups: tuple[list[Result], list[Result]], first: Side, second: Side) -> str:
    """Why the test documents of two rows cannot be paired; empty where they can, or need not be."""
    sides = zip(groups, (first, second), strict=True)
    counts = [outcomes(result, side.row[1], _part(side.measure)) for group, side in sides for result in group]
    if any(found is None for found in counts):
        return "no paired test: the files keep no outcomes per document"
    truths = [found[:, 0] + found[:, 2] for found in counts if found is not None]
    if first.measure == second.measure and any(not np.array_equal(truths[0], other) for other in truths[1:]):
        return "the files are of different test documents"
    return ""


def _part(measure: str) -> str:
    """The documents a measure is of; those that cannot be drawn anew are of the whole test part."""
    kind = measure.partition("/")[0]
    return kind if has_documents(measure) and kind != "gap" else "test"


def _document_interval(
    groups: tuple[list[Result], list[Result]], first: Side, second: Side
) -> tuple[float, float] | None:
    """Where 95 % of the differences lie when the test documents are drawn anew; each row is the mean of its seeds."""
    draws = [
        np.mean([d for r in group if (d := drawn(r, side.row[1], side.measure)) is not None], axis=0)
        for group, side in zip(groups, (first, second), strict=True)
    ]
    low, high = interval(draws[0] - draws[1])
    return low, high
