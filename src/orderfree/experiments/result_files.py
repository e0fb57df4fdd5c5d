"""The result file: one trained and tested cell of a table, `results/<corpus>/<method>/seed<k>.json`.

It holds the provenance of the numbers (config, versions, commit, command) and all data of tables and figures, so that
these need no new training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from pydantic_core import from_json

from ..system.files import write_json

FORMAT: Literal[1] = 1
USUAL = "paper-small"  # the variant of most cells

Scores = dict[str, FiniteFloat]  # metric -> value
ByDecoder = dict[str, Scores]
Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[\w+][\w+.-]*$")]  # becomes a directory


class Record(BaseModel):
    """Unknown keys, of a later version of the same format, are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Seconds(Record):
    train: FiniteFloat
    test: FiniteFloat


class Combinations(Record):
    distinct: Count
    unseen: Count


class FrequencyBin(Record):
    times: str  # occurrences of the label set in training: "0", "2-5", …
    examples: Count
    example_f1: FiniteFloat | None  # None: no such example


class CurvePoint(Record):
    update: Count
    validation: ByDecoder


class ShownExample(Record):
    id: str
    target: list[str]
    predicted: dict[str, list[str]]  # decoder -> labels in the order they were generated


class Result(Record):
    format: Literal[1] = FORMAT
    corpus: Name
    method: Name
    variant: str  # "paper", "paper-small", …: runs of different variants are never averaged
    seed: Count
    config: dict[str, Any]
    versions: dict[str, str]
    commit: str  # of the code; if it is not known, empty, with the reason in `commit_note`
    commit_note: str = ""
    command: str
    seconds: Seconds
    precision: str = "float32"  # of the products in training
    updates: Count
    kept_update: Count = 0
    ended_by: Literal["patience", "cap", "budget", "nothing to descend"] | None = None  # None: older files
    flattened: bool  # the validation score had stopped rising
    cut_short: bool  # training ended before its config said so
    parameters: Count
    truncated: Count  # test documents
    test: ByDecoder
    ranking: dict[str, dict[str, FiniteFloat | None]] = {}  # br, sequence -> mean_average_precision, auc, d_prime
    parts: dict[str, ByDecoder] = {}  # test_multi, test_seen, test_unseen
    outcomes: dict[str, str] = {}  # decoder -> true positives, false positives, false negatives of every test document
    part_outcomes: dict[str, dict[str, str]] = {}  # the same of test_seen and test_unseen
    renormalised: ByDecoder = {}  # the test part by the other definition of the search
    validation_by_search: dict[str, ByDecoder] = {}  # as_in_the_paper, renormalised
    pair_orders: dict[str, tuple[Count, Count]] = {}  # label pairs generated more than once, and in both orders
    combinations: dict[str, Combinations] = {}  # "reference" and every decoder
    position_accuracy: dict[str, list[FiniteFloat]] = {}
    by_frequency: dict[str, list[FrequencyBin]] = {}
    curve: list[CurvePoint] = []
    examples: list[ShownExample] = []
    per_label: list[dict[str, Any]] = []  # of the decoder the model prefers
    confused_pairs: list[dict[str, Any]] = []

    @property
    def identity(self) -> tuple[str, str, str, int]:
        return self.corpus, self.method, self.variant, self.seed

    def part(self, name: str) -> ByDecoder:
        return self.test if name == "test" else self.parts.get(name, {})


def result_path(folder: Path, corpus: str, method: str, seed: int, variant: str = USUAL) -> Path:
    """Variants other than the usual one have their own folders, so that none overwrites another."""
    home = Path(folder) / corpus / method
    return (home if variant == USUAL else home / variant) / f"seed{seed}.json"


def write_result(folder: Path, result: Result) -> Path:
    path = result_path(folder, result.corpus, result.method, result.seed, result.variant)
    write_json(path, result.model_dump(mode="json"))
    return path


def load_results(folder: Path, say: Callable[[str], None] = lambda _: None) -> list[Result]:
    """Every result below `folder`, in the order of corpus, method, variant and seed.

    A file that is damaged, of another format or a second copy of a run is skipped with a message to `say`: a bad file
    must not hide the others, and a run that is counted twice would reduce the measured spread."""
    by_identity: dict[tuple[str, str, str, int], Result] = {}
    for path in sorted(Path(folder).rglob("seed*.json")):
        try:
            result = _read(path)
        except (OSError, ValueError) as error:
            say(f"{path}: skipped, {error}")
            continue
        if result.identity in by_identity:
            say(f"{path}: skipped, another file holds the same corpus, method, variant and seed.")
            continue
        by_identity[result.identity] = result
    return [by_identity[identity] for identity in sorted(by_identity)]


def _read(path: Path) -> Result:
    content = from_json(path.read_bytes(), allow_inf_nan=False)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        version = content.get("format") if isinstance(content, dict) else None
        raise ValueError(f"expected a result of format {FORMAT}, found format {version!r}.")
    try:
        return Result.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        others = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ValueError(f"{key}: {first['msg'][0].lower()}{first['msg'][1:]}{others}.") from None
