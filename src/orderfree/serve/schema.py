"""What the service is asked and what it answers. OpenAPI and /docs are made from these classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=200)]


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What one request may cost, and how requests are put together."""

    body_bytes: int = 2_000_000
    texts: int = 256  # a request
    characters: int = 100_000  # a text
    seconds: float = 30.0  # from the last byte of a request to its answer, waiting included
    queue: int = 64  # requests that wait
    batch_texts: int = 64  # texts at which a batch is full
    batch_seconds: float = 0.02  # longest wait for others, where others were there before
    connections: int = 1000  # open at once; fewer where the process may open fewer files
    probs: int = 1_000_000  # probabilities of an answer: about 30 MB


class DecodeOptions(BaseModel):
    """How a set is decoded; what is left out is as the model was trained."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)  # strict: true is not the number 1

    decoder: Name | None = Field(None, description="one of the model's decoders; see /v1/model")
    optimize_for: Name | None = Field(None, description="the decoder validation chose for this metric, instead")
    thresholds: Share | dict[str, Share] | None = Field(
        None, description="probability at which a thresholded decoder says yes: for all labels, or label by label"
    )
    min_labels: Annotated[int, Field(ge=0)] | None = Field(None, description="fewest labels of a set")
    max_labels: Annotated[int, Field(ge=1)] | None = Field(None, description="most labels of a set")

    @property
    def group(self) -> str:
        """Requests of one group are decoded together."""
        return self.model_dump_json(include=set(DecodeOptions.model_fields))


class PredictRequest(DecodeOptions):
    """One text or many."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["text"], "properties": {"text": {"type": "string"}, "texts": {"type": "null"}}},
                {"required": ["texts"], "properties": {"texts": {"type": "array"}, "text": {"type": "null"}}},
            ]
        }
    )

    text: str | None = Field(None, description="one text")
    texts: list[str] | None = Field(None, min_length=1, description="many texts; give this or `text`")
    alternatives: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="other sets to name for each text, where the decoder's beam holds any"
    )
    probs: Literal["predicted", "all", "none"] = Field(
        "predicted", description="labels to give the binary-relevance probability of"
    )
    candidates: Share | None = Field(
        None, description="also list label sets that hold the true one with this probability; see promises of /v1/model"
    )
    abstain_below: Share | None = Field(
        None, description="withhold the labels of a set that is less probable than this"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> PredictRequest:
        if (self.text is None) == (self.texts is None):
            raise ValueError("give either `text` or `texts`")
        return self

    @property
    def all_texts(self) -> list[str]:
        return self.texts if self.texts is not None else [self.text or ""]


class AlternativeSet(BaseModel):
    labels: list[str]
    log_prob: float


class CandidateSet(BaseModel):
    labels: list[str]
    prob: float = Field(description="of the label decoder, merged over orders")


class Outside(BaseModel):
    possible: bool = Field(description="whether the true set may be none of the candidates, for the promise to hold")
    prob: float = Field(description="of all sets that were not found")


class PossibleSets(BaseModel):
    promise: str = Field(description="in words, with its conditions")
    sets: list[CandidateSet] = Field(description="the most probable first")
    outside: Outside
    doubtful: bool = Field(description="whether there is more than one answer, so that a person should look")


class SetAnswer(BaseModel):
    """The same fields as a line of `orderfree predict`."""

    labels: list[str] = Field(description="in the order they were generated; by falling probability under a threshold")
    log_prob: float = Field(description="of the set, under the model that decided")
    probs: dict[str, float] | None = Field(description="binary-relevance probabilities; null: the model has none")
    alternatives: list[AlternativeSet] = Field(description="other sets of the beam, best first")
    truncated: bool = Field(description="whether the end of the text was not read")
    candidates: list[CandidateSet] | None = Field(None, description="where they were asked for, most probable first")
    outside: Outside | None = Field(None, description="with candidates: the sets that are none of them")
    prob: float | None = Field(None, description="with abstain_below: the probability that the set is right")
    abstained: bool | None = Field(None, description="with abstain_below: whether the labels are withheld")
    withheld: list[str] | None = Field(None, description="the labels of a set that is less probable than abstain_below")


class PredictAnswer(BaseModel):
    decoder: str = Field(description="the decoder that was used")
    predictions: list[SetAnswer] = Field(description="in the order of the texts")


class ExplainRequest(DecodeOptions):
    """One text."""

    text: str
    candidates: Annotated[int, Field(ge=1, le=50)] = Field(8, description="labels to show at each step")

    @property
    def all_texts(self) -> list[str]:
        return [self.text]


class Candidate(BaseModel):
    label: str | None = Field(description="null: to stop")
    prob: float = Field(description="of the label decoder at this step")
    br_prob: float | None = Field(description="of binary relevance, whatever the step")


class StepAnswer(BaseModel):
    taken: str | None = Field(description="null: it stopped")
    prob: float
    may_stop: bool = Field(description="false: there were fewer than min_labels")
    must_stop: bool = Field(description="true: there were max_labels")
    candidates: list[Candidate] = Field(description="the most probable ones, and what was taken")
    attention: list[float] | None = Field(description="over `spans`; what is missing to 1 was read from no word")


class Generation(BaseModel):
    decoder: str = Field(description="whose path this is: the decoder used or, where it has no order, beam")
    steps: list[StepAnswer]


class WeighedWord(BaseModel):
    word: str
    weight: float = Field(description="what it adds to the linear score of the label")


class LabelWords(BaseModel):
    label: str
    words: list[WeighedWord] = Field(description="the heaviest, for or against")


class RankedSet(BaseModel):
    labels: list[str]
    prob: float = Field(description="of the label decoder, over the orders of the set that were found")
    br_prob: float | None = Field(description="of binary relevance")


class Alternatives(BaseModel):
    decoder: str = Field(description="whose beam this is")
    sets: list[RankedSet] = Field(description="as the decoder ranks them, the first one first")


class ComparedLabel(BaseModel):
    label: str
    chosen: bool
    br_prob: float | None
    br_threshold: float | None
    sequence_prob: float | None = Field(description="share of the label decoder's sets that hold the label")


class ExplainAnswer(BaseModel):
    """Parts that the model cannot tell are null."""

    decoder: str
    prediction: SetAnswer
    generation: Generation | None
    spans: list[tuple[int, int]] | None = Field(
        description="where the words the attention reads stand in the text: first character, one behind the last; "
        "counted in Unicode characters"
    )
    word_weights: list[LabelWords] | None = Field(description="of linear encoders, for every label predicted")
    words_missing: str | None = Field(description="why there are neither spans nor word weights")
    caveat: str | None = Field(description="why this answer means little, where the text is empty or its words unknown")
    alternatives: Alternatives | None
    possible: PossibleSets | None = Field(
        description="label sets that hold the true one, by the surest promise of the model; null where it makes none, "
        "or where min_labels or max_labels is not that of the promise"
    )
    comparison: list[ComparedLabel] = Field(description="labels that either decoder thinks of")


class DecoderFacts(BaseModel):
    name: str
    has_order: bool = Field(description="whether it generates labels one after another")
    has_threshold: bool = Field(description="whether `thresholds` mean anything to it")


class LimitsAnswer(BaseModel):
    body_bytes: int
    texts: int
    characters: int
    seconds: float
    queue: int
    probs: int = Field(description="texts times labels, where all probabilities are asked for")


class ModelAnswer(BaseModel):
    name: str
    version: str = Field(description="of orderfree")
    encoder: str
    labels: dict[str, int] = Field(description="with the number of training examples")
    decoders: list[DecoderFacts]
    default_decoder: str
    best_decoder: dict[str, str] = Field(description="for every metric, the decoder validation chose")
    promises: dict[str, str] = Field(description="what is promised of new texts, in words")
    min_labels: int
    max_labels: int
    max_words: int = Field(description="words of a text that are read")
    examples: list[str] = Field(description="texts to try")
    limits: LimitsAnswer


class HealthAnswer(BaseModel):
    status: Literal["ok"]


class ProblemAnswer(BaseModel):
    """Every refusal (RFC 9457)."""

    type: str = Field(description="a place on the page /docs")
    title: str
    status: int
    detail: str = Field(description="one sentence; no text is quoted")
    request_id: str | None = Field(description="stands in the log")
    problems: list[str] = Field([], description="of a request with several, each")
