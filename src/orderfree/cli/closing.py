"""The sentences a command ends with, and what the formats of `predict` do not hold."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..checkpoint import TrainedModel

from ..errors import OrderfreeError
from ..system.wording import counted
from .common import say

FEW = 100  # validation examples whose scores say little
UNSEEN_SHOWN = 10  # labels that a model does not know
TABLES = (".csv", ".tsv", ".xlsx", ".parquet")  # whose rows are read by people, with all their columns


@dataclass
class PredictedCounts:
    """What `predict` has written."""

    inputs: int = 0
    labels: int = 0
    empty: int = 0
    withheld: int = 0  # by --abstain-below
    candidates: int = 0  # sets in lists of --candidates
    outside: int = 0  # lists that may not hold the true set

    def add(self, labels: int) -> None:
        self.inputs += 1
        self.labels += labels
        self.empty += labels == 0

    def sentence(self) -> str:
        each = self.labels / max(self.inputs, 1)
        withheld = f" ({self.withheld:,} withheld)" if self.withheld else ""
        inputs = counted(self.inputs, "input")
        lists = ""
        if self.candidates or self.outside:
            each_list = self.candidates / max(self.inputs, 1)
            lists = f"; {each_list:.2f} candidate sets each, {self.outside:,} lists that may not hold the true set"
        return f"{inputs} predicted: {each:.2f} labels each, {self.empty:,} without labels{withheld}{lists}"


def expectation(trained: TrainedModel) -> str:
    """How good a model is, in plain words."""
    from ..report.verdict import of_hundred

    default = trained.metrics["default"]
    precision, recall = (of_hundred(default["scores"][f"micro_{kind}"]) for kind in ("precision", "recall"))
    chosen = f"chosen for {trained.config.training.select_metric}"
    how = "set by decoding.decoder" if trained.config.decoding.decoder is not None else chosen
    few = "; with so few examples these numbers are rough" if trained.provenance["valid_examples"] < FEW else ""
    return (
        f"What to expect: about {precision} of 100 predicted labels are right, and about {recall} of 100 true labels "
        f"are found (decoder {default['search']}, {how}; measured on the "
        f"{counted(trained.provenance['valid_examples'], 'validation example')} that also determined these choices, "
        f"so scores on new data are slightly lower{few})."
    )


def next_command(run: Path, train_file: Path) -> str:
    """What one does with a model that is just trained; new data probably looks like the training file."""
    suffix = (
        ""
        if train_file.is_dir()
        else "".join(train_file.suffixes[-2:] if train_file.suffix == ".gz" else [train_file.suffix])
    )
    table = suffix.removesuffix(".gz") in TABLES
    kept = ["--keep-columns", "--out", f"tagged{suffix}"] if table else []
    return f"Next: {shlex.join(['orderfree', 'predict', str(run), 'new' + suffix, *kept])}"


def warn_of_unseen_labels(unseen: list[str], known: Collection[str]) -> None:
    from ..data.label_checks import spelling_note

    if not unseen:
        return
    these = counted(len(unseen), "label does", "labels do")
    more = ", …" * (len(unseen) > UNSEEN_SHOWN)
    names = ", ".join(unseen[:UNSEEN_SHOWN]) + more
    say(f"warning: {these} not occur in training, so every occurrence counts as missed: {names}")
    if note := spelling_note(unseen, set(known)):
        say(f"warning: {note}")


def refuse_more(alternatives: bool, candidates: float | None, abstain_below: float | None, kind: str) -> None:
    """Refuses what only JSONL holds."""
    asked = {"--alternatives": alternatives, "--candidates": candidates, "--abstain-below": abstain_below}
    for option, value in asked.items():
        if value not in (None, False) and kind != "jsonl":
            raise OrderfreeError(f"{option}: {kind} cannot hold what it adds; write JSONL.")
