"""The cells to run and their order, and the paths of their configs, results and unfinished runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt

from ..config import Section, check
from ..data.corpora import corpora
from ..errors import ConfigError, OrderfreeError, nearest
from ..system.raw_config import read_yaml
from .result_files import USUAL, result_path

CONFIGS = Path(__file__).parents[1] / "configs"  # of the package: those of the paper's tables


@dataclass(frozen=True)
class Cell:
    corpus: str
    variant: str
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.corpus} {self.method} seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """How cells are run, and the folders of configs, results and runs."""

    configs: Path = CONFIGS
    results: Path = Path("results")
    work: Path = Path("runs/reproduce")  # prepared corpora and unfinished runs
    data: Path | None = None
    limit_train: int | None = None
    cell_seconds: float | None = None  # of one cell: training then ends for good, marked as cut short
    commit: str = ""  # of the code

    def variant_name(self, cell: Cell) -> str:
        """The variant of the results; a smaller training part is another variant."""
        return cell.variant + (f"-train{self.limit_train}" if self.limit_train else "")

    def result_path(self, cell: Cell) -> Path:
        return result_path(self.results, cell.corpus, cell.method, cell.seed, self.variant_name(cell))

    def run(self, cell: Cell) -> Path:
        """The directory in which a cell is trained."""
        return self.work / cell.corpus / self.variant_name(cell) / cell.method / f"seed{cell.seed}"

    def arguments(self, cell: Cell) -> list[str]:
        """Arguments of `orderfree` that run only this cell."""
        words = ["reproduce", cell.corpus, "--variant", cell.variant, "--rows", cell.method, "--seeds", str(cell.seed)]
        if self.limit_train is not None:
            words += ["--limit-train", str(self.limit_train)]
        if self.cell_seconds is not None:
            words += ["--cell-budget", f"{self.cell_seconds:g}s"]
        return words


def usual_variant(configs: Path, corpus: str) -> str:
    """paper-small, except for a corpus that is small enough for the paper's size."""
    return USUAL if (configs / corpus / USUAL).is_dir() or not (configs / corpus).is_dir() else "paper"


def config_file(plan: Plan, cell: Cell) -> Path:
    path = _folder(plan.configs, cell.corpus, cell.variant) / f"{cell.method}.yaml"
    if not path.is_file():
        known = known_rows(plan.configs, cell.corpus, cell.variant)
        raise OrderfreeError(
            f"unknown row {cell.method!r} of {cell.corpus} ({cell.variant}); known: {', '.join(known)}."
            + nearest(cell.method, known)
        )
    return path


def known_rows(configs: Path, corpus: str, variant: str) -> list[str]:
    folder = _folder(configs, corpus, variant)
    names = sorted(file.stem for file in folder.glob("*.yaml"))
    if not names:
        raise OrderfreeError(f"{folder}: holds no configs to run; give another --configs or --variant.")
    return names


def _folder(configs: Path, corpus: str, variant: str) -> Path:
    """configs/<corpus>/<variant>; configs of the paper's size are in configs/<corpus> itself."""
    return configs / corpus / ("" if variant == "paper" else variant)


class Stage(Section):
    """One entry of a queue file."""

    corpus: str
    rows: Annotated[list[str], Field(min_length=1)]
    seeds: Annotated[list[PositiveInt], Field(min_length=1)]
    variant: str = "paper"


def cells_of(corpus: str, variant: str, rows: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """All rows with the first seed, then with the next."""
    corpora[corpus]  # an unknown name raises an error with the known names
    return [Cell(corpus, variant, row, seed) for seed in seeds for row in rows]


def read_queue(path: Path) -> list[Cell]:
    """The cells of a queue file, in its order: YAML with a list of stages under `stages`."""
    stages = read_yaml(path).get("stages")
    if not isinstance(stages, list) or not stages:
        raise ConfigError(f"{path}: expected a list under `stages`, each with corpus, rows and seeds.")
    cells: list[Cell] = []
    for number, raw in enumerate(stages):
        stage, problems = check(Stage, raw, f"stages.{number}")
        if stage is None:
            raise ConfigError(f"{path}: {' '.join(problems)}")
        cells += cells_of(stage.corpus, stage.variant, stage.rows, stage.seeds)
    return list(dict.fromkeys(cells))
