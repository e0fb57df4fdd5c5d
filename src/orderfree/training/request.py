"""The arguments of one call of `train`, as a record."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..config import Config
from ..errors import OrderfreeError
from .distributed.processes import Team
from .loop import Listener, Stop
from .prepare import Data, fingerprints


def log_line(line: str) -> None:
    logging.getLogger("orderfree").info(line)


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of one call of `train`, apart from the config."""

    train_data: Data
    valid_data: Data | None
    out: Path
    resume: bool
    overwrite: bool
    warm_start: Path | None
    team: Team
    say: Callable[[str], None] = log_line
    progress: bool = False
    stop: Stop = field(default_factory=Stop)
    listeners: Sequence[Listener] = ()

    def refuse_contradictions(self) -> None:
        out, folder = self.out, self.train_data
        if self.warm_start is not None and self.warm_start.resolve() == out.resolve():
            raise OrderfreeError(f"{out}: is the earlier model itself; write the new one to another directory.")
        if self.resume and self.overwrite:
            raise OrderfreeError(
                "--resume goes on with the run in --out and --overwrite replaces it; give one of them."
            )
        if out.exists() and not out.is_dir():
            raise OrderfreeError(f"{out}: is a file, expected a directory to write the run to.")
        is_folder = isinstance(folder, str | Path) and os.path.isdir(folder)  # False for names too long to exist
        if is_folder and out.resolve().is_relative_to(Path(str(folder)).resolve()):
            raise OrderfreeError(f"{out}: lies inside the folder of training data; choose another place for the run.")

    def fingerprints(self, config: Config) -> dict[str, str]:
        return fingerprints(config, self.train_data, self.valid_data)
