"""`orderfree explain-ocd`: the paper's worked example, for any labels."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..errors import OrderfreeError, nearest
from ..objectives.ocd import optimal_policy, optimal_q_values

EOS = "<eos>"


def explain(
    labels: list[str], targets: list[str], predictions: list[str], temperature: float, reward: str
) -> dict[str, Any]:
    """Every step of the sampled sequence: what is still a target, Q*, the optimal policy, the reward reachable."""
    _check(labels, targets, predictions, temperature, reward)
    ids = {name: place for place, name in enumerate(labels)}
    wanted = torch.zeros(1, len(labels), dtype=torch.bool)  # (1, L)
    wanted[0, [ids[name] for name in targets]] = True
    sampled = [*(p for p in predictions if p != EOS), EOS]
    sequence = torch.tensor([[ids.get(name, len(labels)) for name in sampled]])  # (1, K)
    q_values = optimal_q_values(wanted, sequence, reward)[0]  # (K, L + 1)
    policy = optimal_policy(q_values, temperature)  # (K, L + 1)
    steps = []  # + 0.0 below: a reward of minus zero is zero
    for t, prediction in enumerate(sampled):
        missing = [name for name in labels if name in targets and name not in sampled[:t]]
        steps.append(
            {
                "step": t,
                "targets": missing or [EOS],
                "q_values": [None if math.isinf(q) else q + 0.0 for q in q_values[t].tolist()],
                "policy": policy[t].tolist(),
                "prediction": prediction,
                "best_reward": float(q_values[t].max()) + 0.0,
            }
        )
    final = float(q_values[-1, -1]) + 0.0  # the reward of ending where the sequence ends
    return {
        "labels": [*labels, EOS],
        "temperature": temperature,
        "reward": reward,
        "steps": steps,
        "total_reward": final,
    }


def _check(labels: list[str], targets: list[str], predictions: list[str], temperature: float, reward: str) -> None:
    if len(labels) < 2 or len(set(labels)) < len(labels) or EOS in labels:
        raise OrderfreeError("--labels: expected at least two different names, none of them <eos>.")
    for option, names in (("--targets", targets), ("--predictions", [p for p in predictions if p != EOS])):
        for name in names:
            if name not in labels:
                raise OrderfreeError(f"{option}: {name!r} is not among --labels.{nearest(name, labels)}")
        if len(set(names)) < len(names):
            raise OrderfreeError(f"{option}: a label stands there twice; no label is ever predicted twice.")
    if EOS in predictions[:-1]:
        raise OrderfreeError("--predictions: nothing can follow <eos>.")
    if temperature < 0 or not math.isfinite(temperature):
        raise OrderfreeError(f"--temperature {temperature}: expected 0 or more.")
    if reward not in ("hamming", "example_f1"):
        raise OrderfreeError(f"--reward {reward!r}: expected hamming or example_f1.")


def print_explanation(explanation: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    def row(values: list[float | None]) -> str:
        return " ".join("    -" if value is None else f"{value:5.2f}" for value in values)

    names = escape(" ".join(f"{name[:5]:>5}" for name in explanation["labels"]))
    table = Table("t", "OCD targets", f"Q*\n{names}", f"optimal policy\n{names}", "prediction", "best reward", box=None)
    for step in explanation["steps"]:
        table.add_row(
            str(step["step"]),
            escape(", ".join(step["targets"])),
            row(step["q_values"]),
            row(step["policy"]),
            escape(step["prediction"]),
            f"{step['best_reward']:g}",
        )
    console = Console(width=max(120, 40 + 14 * len(explanation["labels"])))
    console.print(table)
    console.print(f"total reward {explanation['total_reward']:g}", highlight=False)
