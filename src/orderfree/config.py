"""Every setting of a run. `orderfree config` prints these keys with their comments and defaults.

Unknown keys are refused with the nearest name, and all problems are reported at once.
The options of an encoder or objective are described beside its code, in its `Options` class."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from .errors import nearest

Probability = Annotated[float, Field(ge=0, lt=1)]
PositiveInt = Annotated[int, Field(gt=0)]
Layers = Annotated[int, Field(gt=0, le=100)]  # and other counts that become loops: configs come from strangers, too
BatchSize = Annotated[int, Field(gt=0, le=1 << 20)]

METRICS = Literal["average", "micro_f1", "macro_f1", "example_f1", "subset_accuracy", "hamming_accuracy"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


SectionT = TypeVar("SectionT", bound=Section)
LONGEST_SHOWN = 200  # characters of a value in a message


class BagOptions(Section):
    """What goes into a bag of terms; options of every encoder that reads one."""

    ngrams: Layers = Field(1, description="word n-grams up to this length")
    chars: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="character n-grams of 3 up to this length; 0: none"
    )
    leads: list[PositiveInt] = Field(
        default_factory=list,
        description="words among the first n count once more, as terms of their own, for each n: titles, opening "
        "lines; `linear` with c: null leaves them out where a held-out fold is better without",
    )
    embeddings: str | None = Field(
        None,
        description="frozen sentence embedding beside the terms: mpnet (from its packages), a directory with a "
        "Hugging Face encoder, an installed package that holds one, or its name on the Hub",
    )
    embedding_weight: Annotated[float, Field(gt=0)] = Field(0.5, description="length of the embedding; words have 1")
    embedding_precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="precision of the embedding; auto: bfloat16 where it is faster"
    )
    embedding_tokens: PositiveInt = Field(192, description="tokens of a text that are embedded")


class DataConfig(Section):
    format: str = Field(
        "auto",
        description="jsonl, json, csv, tsv, xlsx, parquet, texts, fasttext, sgm, libmultilabel, libsvm, npz, npy, "
        "hdf5, tfrecord, sounds, reuters-sgml, nltk-reuters, lyrl2004; auto: by the file's name",
    )
    encoding: str | None = Field(None, description="encoding of text files; null: recognised, else UTF-8")
    delimiter: str | None = Field(None, min_length=1, max_length=1, description="CSV delimiter; null: recognised")
    text_field: str = Field("text", description="field or column of the text; unless set, recognised in tables")
    more_text_fields: list[str] = Field(default_factory=list, description="further text columns, joined in this order")
    labels_field: str = Field("labels", description="field or column of the labels; unless set, recognised in tables")
    unknown_field: str = Field(
        "unknown",
        description="name of the optional field or column with labels an example may or may not have: not trained on",
    )
    id_field: str = Field("id", description="name of the optional field or column that holds the id")
    label_separator: str = Field(",", min_length=1, description="between the labels of a cell; unless set, recognised")
    label_case: Literal["keep", "lower", "upper"] = Field(
        "keep", description="labels as they are written, or all in lower or upper case: joins those that differ in case"
    )
    empty: Literal["none", "unknown"] = Field(
        "none",
        description="what an example without labels says: that it has none, or that its labels are not known; the "
        "latter is not trained on",
    )
    label_columns: list[str] | None = Field(
        None, description="CSV/TSV with one 0/1 column per label: the names of these columns, or ['*'] for all others"
    )
    features_field: str = Field("X", description="name of the features in an .npz, HDF5 or Parquet file")
    targets_field: str = Field("Y", description="name of the label array in an .npz or HDF5 file")
    classes: str | None = Field(
        None, description="class list, for labels that are numbered: a name a line, or CSV with index and display_name"
    )
    skip_bad: bool = Field(
        False, description="leave out damaged records, sounds and features, and count them; else stop at the first"
    )
    valid_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.1,
        description="share of the training file held out (stratified by label) when no validation file is given",
    )
    max_words: PositiveInt = Field(500, description="longer texts are truncated to this many words, and counted")
    vocabulary_size: PositiveInt = Field(50_000, description="maximum number of words or terms")
    min_count: PositiveInt = Field(1, description="rarer words are dropped; terms: those in fewer documents")
    lowercase: bool = Field(True, description="lowercase all text")
    sample_rate: Annotated[int, Field(ge=2000, le=768_000)] = Field(
        16_000, description="sounds of another rate are resampled to this many samples a second"
    )
    mel_bands: Annotated[int, Field(gt=0, le=128)] = Field(64, description="number of mel bands that describe a sound")
    sound_window: Annotated[float, Field(ge=0.01, le=10)] = Field(0.2, description="seconds of sound per vector")
    vggish: str | None = Field(
        None, description="file of VGGish weights: sounds are then described by its embeddings; null: by mel bands"
    )
    vggish_pca: str | None = Field(
        None, description="file of VGGish's principal components: embeddings become AudioSet's 8-bit features"
    )


class ModelConfig(Section):
    encoder: str = Field("sparse", description="bilstm, sparse, linear, transformer, dense, audio or hybrid")
    encoder_options: dict[str, Any] = Field(default_factory=dict, description="options of that encoder, listed below")
    label_decoder: str | None = Field(
        None,
        description="lstm, the paper's; residual, the same as a correction of the encoder's label scores; sgm, with "
        "global embedding; seq2set, a set decoder on a sequence decoder; chain, of binary classifiers; null: residual "
        "where the encoder scores labels, else lstm",
    )
    label_embedding: PositiveInt = Field(64, description="size of the label embeddings fed to the label decoder")
    decoder_hidden: PositiveInt = Field(128, description="hidden size of the LSTM label decoder")
    decoder_layers: Layers = Field(1, description="layers of the LSTM label decoder")
    decoder_cell: Literal["lstm", "gru"] = Field("lstm", description="recurrent cell of the label decoder")
    br_decoder: str | None = Field(
        None,
        description="mlp, the paper's (Eq. 6); residual, the same as a correction of the encoder's label scores; "
        "scores, as the encoder gives them; output, one linear layer on the encoder's summary; null: residual where "
        "the encoder scores labels, output for audio, else mlp",
    )
    br_hidden: PositiveInt = Field(256, description="hidden size of the binary-relevance decoder")
    br_layers: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="layers of the binary-relevance decoder's MLP (Eq. 6)"
    )
    br_batch_norm: bool = Field(False, description="batch normalisation in these layers, as in the released code")
    dropout: Probability = Field(0.2, description="dropout on the inputs and between the layers of every part")


class ObjectiveConfig(Section):
    sequence: str | None = Field(
        "ocd",
        description="objective of the label decoder: ocd, mle, order_free or self_critical; null: no label decoder",
    )
    sequence_options: dict[str, Any] = Field(
        default_factory=dict, description="options of that objective, listed below"
    )
    second: str | None = Field(
        None, description="objective trained beside it, on the same decoder or the one it stands on (seq2set)"
    )
    second_options: dict[str, Any] = Field(default_factory=dict, description="options of the second objective")
    second_weight: Annotated[float, Field(gt=0)] = Field(1.0, description="weight of the second loss")
    br_weight: Annotated[float, Field(ge=0)] = Field(
        1.0, description="lambda of Eq. 12, weight of binary relevance; 0: no binary-relevance decoder"
    )
    br_focus: Annotated[float, Field(ge=0)] = Field(
        0.0, description="asymmetric loss: labels that are plainly absent count less, the more the larger; 0: Eq. 11"
    )
    class_weight: Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        None,
        description="balanced: having a rare label and lacking a frequent one count more, n / (2 n_label) times; or "
        "names of labels with how much having each counts; null: all the same",
    )
    normalise: Literal["sequence", "step"] = Field(
        "sequence", description="sum the steps' losses per sequence as Eq. 10 says, or take their mean"
    )
    max_steps: PositiveInt = Field(25, description="longest label sequence sampled in training")
    extra_steps: Annotated[int, Field(ge=0)] | None = Field(
        2,
        description="stop a sampled sequence this many steps after its number of targets; null: only at max_steps",
    )
    sampled_labels: PositiveInt | None = Field(
        None,
        description="for very many labels: the label decoder learns from the targets of a batch and this many random "
        "labels besides, in the place of all (sampled softmax); null: all",
    )


class TrainingConfig(Section):
    batch_size: BatchSize = Field(64, description="examples per update")
    balanced: bool = Field(
        False, description="draw every label equally often, and with it one of its examples; else each example once"
    )
    learning_rate: Annotated[float, Field(gt=0)] = Field(3e-3, description="Adam's step size; with shortlists a tenth")
    encoder_rate: Annotated[float, Field(gt=0)] = Field(
        1.0, description="share of the learning rate for the encoder, or its pretrained part; about 0.02 to fine-tune"
    )
    schedule: Literal["constant", "linear"] = Field(
        "linear", description="learning rate over training; linear: down to 0"
    )
    warmup: Probability = Field(0.0, description="share of updates in which the learning rate rises; 0.1 to fine-tune")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="decoupled weight decay (AdamW)")
    clip_norm: Annotated[float, Field(gt=0)] = Field(10.0, description="gradients are scaled down to this norm")
    epochs: PositiveInt = Field(20, description="passes over the training part")
    max_updates: PositiveInt | None = Field(
        None, description="end after this many updates, whatever the epochs say; null: no limit, with shortlists 1,000"
    )
    validate_every: PositiveInt | None = Field(None, description="updates between validations; null: once an epoch")
    validate_all: bool = Field(
        False,
        description="validate with every decoder, for learning curves; else with joint (or the only one) and br",
    )
    patience: PositiveInt | None = Field(
        10, description="stop after this many validations without improvement; null: never"
    )
    select_metric: METRICS = Field(
        "micro_f1", description="validation metric that picks the checkpoint to keep, and the default way to decode"
    )
    save_minutes: Annotated[float, Field(ge=0)] = Field(
        1.0, description="minutes between saved states; 0: after every update"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "float32",
        description="of the products in training; weights, softmax, losses and scores are always float32; auto: "
        "bfloat16 where the processor or GPU is faster at it; the config of the run then says which it was",
    )
    tensorboard: bool = Field(True, description="write TensorBoard files too, if tensorboard is installed")
    threads: Annotated[int, Field(gt=0, le=1024)] | None = Field(
        None, description="CPU threads; null: OMP_NUM_THREADS, or the cores this process may use"
    )


class DecodingConfig(Section):
    decoder: str | None = Field(
        None,
        description="what predictions are made with: greedy, beam, br, rescore, joint, marginal, linear, "
        "expected_f1 or, with thousands of labels, neighbour_sets; null: what validation prefers for "
        "training.select_metric",
    )
    beam_width: Annotated[int, Field(gt=0, le=4096)] = Field(6, description="hypotheses kept per input")
    min_labels: Annotated[int, Field(ge=0)] | None = Field(
        0,
        description="fewest labels to predict; null: 1, but 0 or 1 as validation prefers where at least 5 % of the "
        "training examples have no label",
    )
    max_labels: PositiveInt | None = Field(
        None, description="most labels to predict; null: the longest set in training + 2"
    )
    renormalise: bool = Field(
        True,
        description="search over softmax(o_t + M_t) (Eq. 4); false: over p_rnn = softmax(o_t) (Eq. 3, 14)",
    )
    br_power: Annotated[float, Field(ge=0)] = Field(
        1.0,
        description="joint decoding seeks the highest P_path * P_br^br_power; 1: Eq. 16, 0: the label decoder",
    )
    br_threshold: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="threshold of binary relevance; null: chosen on validation for each metric"
    )
    batch_size: BatchSize = Field(128, description="inputs decoded together")


class Config(Section):
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(1, description="seed of every random choice")
    data: DataConfig = Field(default_factory=DataConfig)
    model: ModelConfig = Field(default_factory=ModelConfig)
    objective: ObjectiveConfig = Field(default_factory=ObjectiveConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    decoding: DecodingConfig = Field(default_factory=DecodingConfig)


def check(section: type[SectionT], raw: Any, prefix: str = "") -> tuple[SectionT | None, list[str]]:
    """The section made from `raw`, or every problem it has, one sentence each."""
    try:
        return section.model_validate(raw), []
    except ValidationError as error:
        return None, [_sentence(section, problem, prefix) for problem in error.errors()]


def _sentence(section: type[Section], problem: ErrorDetails, prefix: str) -> str:
    path = [str(part) for part in problem["loc"]]
    key = ".".join([prefix, *path] if prefix else path)
    if problem["type"] == "extra_forbidden":
        known = _keys_at(section, path[:-1])
        return f"unknown key {key!r}.{nearest(path[-1], known)} Known here: {', '.join(known)}."
    return f"{key}: {problem['msg'][0].lower()}{problem['msg'][1:]}, but got {_cut(repr(problem['input']))}."


def _cut(shown: str) -> str:
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]} …"


def _keys_at(section: type[Section], path: list[str]) -> list[str]:
    for part in path:
        inner = section.model_fields[part].annotation
        assert isinstance(inner, type)
        assert issubclass(inner, Section)
        section = inner
    return list(section.model_fields)


def describe(section: type[Section], indent: str = "") -> str:
    """The section as commented YAML with its defaults."""
    lines: list[str] = []
    for name, info in section.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            lines += [f"{indent}{name}:", describe(inner, indent + "  ")]
            continue
        default = info.get_default(call_default_factory=True)
        shown = yaml.safe_dump(default, default_flow_style=True).removesuffix("...\n").strip()
        lines.append(f"{indent}{name}: {shown}  # {info.description}")
    return "\n".join(lines)
