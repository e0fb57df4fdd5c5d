"""Reports of a run: history.jsonl, a progress bar or plain lines, TensorBoard."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..system.files import explained, write_text
from ..system.listed import is_number, is_score, read_plain
from .state import Progress as RunProgress


class History:
    """One JSON line per validation. A resumed run first removes the lines that are newer than its saved state."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began = time.monotonic()

    def started(self, progress: RunProgress, total_updates: int) -> None:
        self.began = time.monotonic()
        known = [row for row in read_history(self.path) if row["update"] <= progress.update]
        write_text(self.path, "".join(json.dumps(row) + "\n" for row in known))

    def updated(self, progress: RunProgress, loss: float) -> None:
        pass

    def validated(self, progress: RunProgress, row: dict[str, Any]) -> None:
        seconds = round(time.monotonic() - self.began, 3)  # of this process: a resumed run starts at zero again
        with explained(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "seconds": seconds}) + "\n")

    def ended(self, progress: RunProgress) -> None:
        pass


def read_history(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a history; lines that are truncated or not in our format are left out."""
    if not path.exists():
        return []
    rows = []
    for line in read_plain(path).decode("utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(row, dict) or type(row.get("update")) is not int or not is_number(row["update"]):
            continue
        losses = [value for name, value in row.items() if name.startswith("loss") and value is not None]
        if all(map(is_number, losses)) and _are_scores(row.get("validation")):
            rows.append(row)
    return rows


def _are_scores(by_decoder: Any) -> bool:
    rows = list(by_decoder.values()) if isinstance(by_decoder, dict) else [None]
    return all(isinstance(row, dict) and all(map(is_score, row.values())) for row in rows)


class ProgressLines:
    """A bar with loss, best score and remaining time on a terminal; elsewhere, or if `say` is given, one plain line
    per validation."""

    def __init__(self, metric: str, decoder: str, say: Callable[[str], None] | None = None) -> None:
        self.metric, self.decoder, self.say = metric, decoder, say
        self.console = Console(file=sys.stderr)
        self.bar: Progress | None = None
        self.total = 0

    def started(self, progress: RunProgress, total_updates: int) -> None:
        self.total = total_updates
        if self.console.is_terminal and self.say is None:
            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "<", TimeRemainingColumn())
            self.bar = Progress(
                TextColumn("training"), *columns, TextColumn("{task.description}"), console=self.console
            )
            self.task = self.bar.add_task("", total=total_updates, completed=progress.update)
            self.bar.start()

    def updated(self, progress: RunProgress, loss: float) -> None:
        if self.bar is not None:
            best = "" if progress.best_score is None else f", best {self.metric} {progress.best_score:.4f}"
            self.bar.update(self.task, completed=progress.update, description=f"loss {loss:.3f}{best}")

    def validated(self, progress: RunProgress, row: dict[str, Any]) -> None:
        scores = row["validation"][self.decoder]
        loss = f", epoch {row['epoch']}: loss {row['loss']:.4f}, " if "loss" in row else ": "
        line = (
            f"update {row['update']:,} of {self.total:,}{loss}"
            f"{self.decoder} {self.metric} {scores[self.metric]:.4f}, subset accuracy {scores['subset_accuracy']:.4f}"
        )
        line += " *" if row["best"] else ""
        if self.say is not None:
            self.say(line)
        else:
            self.console.print(line, highlight=False, soft_wrap=True)

    def ended(self, progress: RunProgress) -> None:
        if self.bar is not None:
            self.bar.stop()


class TensorBoard:
    """Scalars for TensorBoard, if it is installed."""

    @staticmethod
    def available() -> bool:
        return importlib.util.find_spec("tensorboard") is not None

    def __init__(self, directory: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(directory))

    def started(self, progress: RunProgress, total_updates: int) -> None:
        pass

    def updated(self, progress: RunProgress, loss: float) -> None:
        pass

    def validated(self, progress: RunProgress, row: dict[str, Any]) -> None:
        scalars = {name: value for name, value in row.items() if name.startswith("loss")}
        for decoder, scores in row["validation"].items():
            scalars |= {f"{decoder}/{metric}": value for metric, value in scores.items()}
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, row["update"])

    def ended(self, progress: RunProgress) -> None:
        self.writer.close()
