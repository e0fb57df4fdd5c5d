"""The space of a hyper-parameter search: any config keys, each with a range or a list of choices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from ...config import Config, Section, check
from ...errors import ConfigError
from ...system.raw_config import read_yaml

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

SPACES = Path(__file__).with_name("spaces.yaml")


class Dimension(Section):
    """{low, high}, optionally with `log` or `step`, or {choices}."""

    low: int | float | None = Field(None, description="the smallest value")
    high: int | float | None = Field(None, description="the largest value")
    log: bool = Field(False, description="small values are tried as often as large ones")
    step: int | float | None = Field(None, gt=0, description="distance between the values tried")
    choices: list[Any] | None = Field(None, min_length=1, description="the values tried")

    @model_validator(mode="after")
    def _one_kind(self) -> Dimension:
        if (self.choices is None) == (self.low is None and self.high is None):
            raise ValueError("expected {low: …, high: …} or {choices: […]}")
        if self.choices is not None:
            if self.log or self.step is not None:
                raise ValueError("log and step are for {low: …, high: …}, not for choices")
        elif self.low is None or self.high is None or self.low >= self.high:
            raise ValueError("expected low and high, low below high")
        elif self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("log needs a positive low, and no step")
        return self

    @property
    def ends(self) -> list[Any]:
        """The extreme values, or all choices; if they are valid, so are all values."""
        return self.choices if self.choices is not None else [self.low, self.high]

    @property
    def whole(self) -> bool:
        """Whether a range has integers only."""
        return all(isinstance(number, int) for number in (self.low, self.high, self.step or 1))

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.choices is not None:  # as JSON, because lists and null can be choices
            return CategoricalDistribution([json.dumps(choice) for choice in self.choices])
        assert self.low is not None
        assert self.high is not None
        if self.whole:
            return IntDistribution(int(self.low), int(self.high), self.log, int(self.step or 1))
        return FloatDistribution(float(self.low), float(self.high), self.log, self.step)

    def suggestion(self, value: Any) -> Any:
        """The suggestion that corresponds to this value; None: the distribution does not include it."""
        if self.choices is not None:
            same = [choice for choice in self.choices if choice == value]  # 1 == 1.0, but their JSON differs
            return json.dumps(same[0]) if same else None
        assert self.low is not None
        assert self.high is not None
        if not isinstance(value, int | float) or not self.low <= value <= self.high:
            return None
        if self.whole:
            if value != int(value):
                return None
            value = int(value)
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return value if abs(steps - round(steps)) < 1e-6 else None

    def value(self, suggested: Any) -> Any:
        """The config value of a suggestion."""
        if self.choices is not None:
            return json.loads(suggested)
        return float(f"{suggested:.6g}") if isinstance(suggested, float) else suggested


Space = dict[str, Dimension]


def usual_space(config: Config) -> Space:
    """The built-in space of the encoder, without keys that a model with a single decoder does not use."""
    spaces = read_yaml(SPACES)
    if config.model.encoder not in spaces:
        raise ConfigError(
            f"there is no built-in space for model.encoder={config.model.encoder}; give one with --space."
        )
    space = _read(SPACES, spaces[config.model.encoder])
    if config.objective.sequence is None or config.objective.br_weight == 0:
        space.pop("objective.br_weight", None)
    if config.objective.sequence is None:
        space.pop("model.decoder_hidden", None)
    return space


def read_space(path: Path, with_values: Callable[[dict[str, Any]], Config]) -> Space:
    """The space of a file; every key and every end of a range is checked by building a config with it."""
    space = _read(path, read_yaml(path))
    if not space:
        raise ConfigError(
            f"{path}: names no key to vary; write for example training.learning_rate: {{low: …, high: …}}."
        )
    for key, dimension in space.items():
        for value in dimension.ends:
            try:
                with_values({key: value})
            except ConfigError as error:
                problem = str(error).partition("\n  - ")[2] or str(error)
                raise ConfigError(f"{path}, {key} = {value!r}: {problem}") from None
    return space


def _read(path: Path, raw: dict[str, Any]) -> Space:
    space: Space = {}
    for key, content in raw.items():
        dimension, problems = check(Dimension, content)
        if dimension is None:
            raise ConfigError(f"{path}, {key}: {problems[0].removeprefix(': ').removeprefix('value error, ')}")
        space[str(key)] = dimension
    return space
