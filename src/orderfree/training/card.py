"""The model card: a README.md any person can read, written by the program."""

from __future__ import annotations

from ..checkpoint import TrainedModel
from ..data.featurizers import bag_part

SHOWN = ("macro_f1", "micro_f1", "example_f1", "subset_accuracy", "hamming_accuracy", "average")


def model_card(trained: TrainedModel) -> str:
    config, provenance = trained.config, trained.provenance
    sequence = config.objective.sequence
    objective = " + ".join([*([sequence] if sequence else []), *(["br"] if config.objective.br_weight > 0 else [])])
    rows = [
        f"| {decoder} | " + " | ".join(f"{scores[metric]:.4f}" for metric in SHOWN) + " |"
        for decoder, scores in trained.metrics["validation"].items()
    ]
    counted = zip(trained.labels.names[:10], trained.labels.counts, strict=False)
    frequent = ", ".join(f"`{name}` ({count:,})" for name, count in counted)
    kept = f"update {trained.metrics['update']:,} of {trained.metrics['updates']:,}"
    refitted = (
        "\nAfter that, its linear classifiers were solved once more with this part among their examples."
        if provenance["solved_with_validation"]
        else ""
    )
    repairs = trained.metrics.get("calibration", {})
    honest = "".join(
        f"| {part} | {told['kind']} | {told['brier_score']['before']:.4f} | {told['brier_score']['after']:.4f} |\n"
        for part, told in repairs.items()
    )
    neighbours = getattr(bag_part(trained.featurizer), "neighbours", None)
    remembered = (
        f"\n\n`neighbours.safetensors` holds the terms and labels of {neighbours.bags.shape[0]:,} training examples: "
        "whoever gets this\ndirectory can read which words they held "
        "(`model.encoder_options.neighbours=0` trains without)."
        if neighbours is not None
        else ""
    )
    scorer = getattr(bag_part(trained.featurizer), "scorer", None)
    if scorer is not None:
        remembered = (
            f"\n\nEach input is scored on a shortlist of {scorer.size:,} labels. `shortlist.safetensors` holds the "
            f"terms and labels of\n{scorer.remembered.shape[0]:,} training examples: whoever gets this directory can "
            "read which words they held."
        )
    return f"""# A label-set predictor made with orderfree

Predicts which of {len(trained.labels):,} labels an input has. Most frequent in training: {frequent}.

| | |
| --- | --- |
| encoder | {config.model.encoder} |
| objective | {objective} |
| parameters | {trained.network.parameter_count():,} |
| training examples | {provenance["train_examples"]:,} |
| validation examples | {provenance["valid_examples"]:,} |
| texts truncated to {config.data.max_words:,} words | {provenance["truncated"]:,} |
| training data (SHA-256) | `{provenance["data"]["train"]}` |
| seed | {config.seed} |
| kept checkpoint | {kept}, by {trained.metrics["selected_by"]} |

## Scores on the validation part

The checkpoint and the binary-relevance threshold were chosen on this very part, so these figures flatter the model;
judge it on data it has not seen (`orderfree evaluate`).{refitted}

| decoder | {" | ".join(SHOWN)} |
| --- |{" --- |" * len(SHOWN)}
{chr(10).join(rows)}

## Probabilities

Repairs of probabilities chosen on the validation part by cross-validation, with the Brier score there before and after.

| probabilities of | repair | before | after |
| --- | --- | --- | --- |
{honest}
## Use

```
orderfree predict <this directory> new.jsonl
```

Files: `config.json`, `labels.json`, the vocabulary, `model.safetensors`, `thresholds.json`, `metrics.json`;
`manifest.json` holds their checksums. Loading them runs no code.{remembered}
"""
