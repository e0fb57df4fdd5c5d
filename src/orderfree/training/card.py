"""The model card: a README.md any person can read, written by the program."""

from __future__ import annotations

from ..checkpoint import TrainedModel
from ..data.featurizers import bag_part

SHOWN = ("macro_f1", "micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy", "average")
REFITTED = "\nAfter that, its linear classifiers were solved once more with this part among their examples."
TEMPLATE = """# A label-set predictor made with orderfree

Predicts which of {labels:,} labels an input has. Most frequent in training: {frequent}.

| | |
| --- | --- |
{facts}

## Scores on the validation part

The checkpoint and the binary-relevance threshold were chosen on this very part, so these figures flatter the model;
judge it on data it has not seen (`orderfree evaluate`).{refitted}

{scores}

## Probabilities

Repairs of probabilities chosen on the validation part by cross-validation, with the Brier score there before and after.

| probabilities of | repair | before | after |
| --- | --- | --- | --- |
{repairs}
## Use

```
orderfree predict <this directory> new.jsonl
```

Files: `config.json`, `labels.json`, the vocabulary, `model.safetensors`, `thresholds.json`, `metrics.json`;
`manifest.json` holds their checksums, and the promises that `orderfree thresholds` has made; `PROMISES.md` lists these.
Loading the files runs no code.{remembered}
"""


def model_card(trained: TrainedModel) -> str:
    counted = zip(trained.labels.names[:10], trained.labels.counts, strict=False)
    return TEMPLATE.format(
        labels=len(trained.labels),
        frequent=", ".join(f"`{name}` ({count:,})" for name, count in counted),
        facts="\n".join(f"| {name} | {value} |" for name, value in _facts(trained).items()),
        refitted=REFITTED if trained.provenance["solved_with_validation"] else "",
        scores=_scores(trained),
        repairs="".join(
            f"| {part} | {told['kind']} | {told['brier_score']['before']:.4f} | {told['brier_score']['after']:.4f} |\n"
            for part, told in trained.metrics.get("calibration", {}).items()
        ),
        remembered=_remembered(trained),
    )


def _facts(trained: TrainedModel) -> dict[str, str]:
    config, provenance, metrics = trained.config, trained.provenance, trained.metrics
    sequence = config.objective.sequence
    objective = [*([sequence] if sequence else []), *(["br"] if config.objective.br_weight > 0 else [])]
    kept = f"update {metrics['update']:,} of {metrics['updates']:,}"
    return {
        "encoder": config.model.encoder,
        "objective": " + ".join(objective),
        "parameters": f"{trained.network.parameter_count():,}",
        "training examples": f"{provenance['train_examples']:,}",
        "validation examples": f"{provenance['valid_examples']:,}",
        f"texts truncated to {config.data.max_words:,} words": f"{provenance['truncated']:,}",
        "training data (SHA-256)": f"`{provenance['data']['train']}`",
        "seed": str(config.seed),
        "kept checkpoint": f"{kept}, by {metrics['selected_by']}",
    }


def _scores(trained: TrainedModel) -> str:
    lines = [f"| decoder | {' | '.join(SHOWN)} |", f"| --- |{' --- |' * len(SHOWN)}"]
    for decoder, scores in trained.metrics["validation"].items():
        lines.append(f"| {decoder} | " + " | ".join(f"{scores[metric]:.4f}" for metric in SHOWN) + " |")
    return "\n".join(lines)


def _remembered(trained: TrainedModel) -> str:
    """What the files of the model tell of its training texts."""
    bag = bag_part(trained.featurizer)
    scorer, neighbours = getattr(bag, "scorer", None), getattr(bag, "neighbours", None)
    if scorer is not None:
        return (
            f"\n\nEach input is scored on a shortlist of {scorer.size:,} labels. `shortlist.safetensors` holds the "
            f"terms and labels of\n{scorer.remembered.shape[0]:,} training examples: whoever gets this directory can "
            "read which words they held."
        )
    if neighbours is not None:
        return (
            f"\n\n`neighbours.safetensors` holds the terms and labels of {neighbours.bags.shape[0]:,} training "
            "examples: whoever gets this\ndirectory can read which words they held "
            "(`model.encoder_options.neighbours=0` trains without)."
        )
    return ""
