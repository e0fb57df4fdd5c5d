"""The scikit-learn face of the package: it wraps `training.run` and `inference`, and adds nothing to them.

from orderfree import OrderFreeClassifier

classifier = OrderFreeClassifier().fit(texts, [["grain", "wheat"], ["trade"], …])
classifier.predict(["wheat exports rose"])  # [["grain", "wheat"]]
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from .build import input_kind, load_config, scores_labels
from .checkpoint import TrainedModel, save_model
from .config import Config
from .data.arrays import Labelling, feature_examples, is_text, refuse_tables_of_text, text_examples, texts_of
from .decisions.promised import CandidateList
from .decisions.records import BEST, NAMED
from .errors import ModelDirectoryError, OrderfreeError
from .inference import Predictor
from .promises.promise import Promise
from .system.files import write_text, writing_directory
from .system.processor import products
from .training.card import model_card
from .training.listeners import read_history
from .training.request import log_line
from .training.run import Interrupted, train
from .types import Example, LabelSet, SparseVector

# in the provenance of a model: how its y said labels, and the columns of its X
FACE = "estimator"


def _descends(classifier: OrderFreeClassifier) -> bool:
    """Whether `partial_fit` is there at all: not where the encoder is known to be solved, whatever X will be."""
    return (classifier.encoder or (classifier.settings or {}).get("model.encoder")) != "linear"


class OrderFreeClassifier(ClassifierMixin, BaseEstimator):
    """Predicts sets of labels for texts or feature vectors.

    X: texts (list, NumPy array, pandas, polars or Arrow column), or features (dense or SciPy sparse matrix).
    y: lists of labels, a dense or sparse 0/1 matrix, or one label an example; `predict` answers in the same way. A list
       that is None, or NaN in a matrix, says that labels are not known: they are neither trained on nor judged.

    Parameters
        preset        fast, best or paper; None: the default of `orderfree train`
        config        a YAML file of config keys, instead of a preset
        encoder       model.encoder; None: that of the preset, for dense features `dense`
        decoder       decoding.decoder, what `predict` decodes with; None: what is best for `training.select_metric`
                      (micro-F1) on held-out examples
        optimize_for  a metric, instead of a decoder: `predict` decodes with what was best for it on held-out examples
        settings      any other config keys, {"training.epochs": 5}
        random_state  the seed; the same seed, data and number of threads give the same model
        verbose       shows how the training goes

    Every fit holds out examples to choose the checkpoint, the thresholds and the decoder for each metric: those given
    as `validation`, else the share `data.valid_fraction` (a tenth) of the training examples; `n_validation_` says how
    many.
    `partial_fit` goes on training with new examples, for features and encoders that are trained by gradient.
    """

    def __init__(
        self,
        preset: str | None = None,
        config: str | Path | None = None,
        encoder: str | None = None,
        decoder: str | None = None,
        optimize_for: str | None = None,
        settings: dict[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.preset = preset
        self.config = config
        self.encoder = encoder
        self.decoder = decoder
        self.optimize_for = optimize_for
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, validation: tuple[Any, Any] | None = None
    ) -> OrderFreeClassifier:
        """Trains a model. `sample_weight` (N,) says how much each example counts in the losses, those of the linear
        classifiers included; what is held out counts once. `validation`: X and y of held-out examples."""
        checked, labelling = self._given(X, y, reset=True)
        config = self._config(dense=not self._text and not hasattr(checked, "tocsr"), column=labelling.kind == "column")
        examples, held_out = self._training_examples(checked, y, labelling, config, sample_weight, validation)
        _refuse_one_class(examples)
        trained, self.history_ = self._train(config, examples, held_out)
        self._finish(trained, labelling)
        return self

    @available_if(_descends)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
    ) -> OrderFreeClassifier:
        """One pass over new examples, from the weights that earlier calls (or `fit`) have left.

        `classes` names all labels there will ever be and is needed in the first call. What is not trained by gradient
        stays as the first call made it (the scale of dense features) or is made anew by every call (thresholds and the
        decoder for each metric, from the examples it holds out); the optimiser starts afresh. Texts and the encoder
        `linear` are refused: vocabularies and linear classifiers are made from all examples at once."""
        first = not self.__sklearn_is_fitted__()
        checked, labelling = self._given(X, y, reset=first)
        labelling = self._all_classes(labelling, classes, first)
        dense = not self._text and not hasattr(checked, "tocsr")
        if first:
            config = self._config(dense, labelling.kind == "column")
        else:
            config = self.predictor_.trained.config.model_copy(deep=True)
        _refuse_solved(config, self._text)
        config.training.epochs, config.training.max_updates, config.training.schedule = 1, None, "constant"
        config.seed += not first  # other batches than in the call before
        examples, held_out = self._training_examples(checked, y, labelling, config, sample_weight, validation)
        if first:
            _refuse_one_class(examples)
            examples = [_as_wide(example, self.n_features_in_) for example in examples]
        earlier = None if first else self.predictor_.trained
        trained, history = self._train(config, examples, held_out, earlier)
        if earlier is not None:
            trained.labels = trained.labels.with_seen(earlier.labels)
        self.history_ = [*([] if first else self.history_), *history]
        self._finish(trained, labelling)
        return self

    def predict(self, X: Any, promise: str | None = None) -> Any:
        """The labels of every example, in the form that `fit` was given them; `promise`: at the thresholds that keep
        it, such as "recall=0.9"."""
        label_sets = [found.labels for found in self.predict_sets(X, promise)]
        return self._labelling.write(label_sets)

    def promise(self, X: Any, y: Any, goal: str, confidence: float | None = None) -> Promise:
        """Makes a promise on examples that were not fitted: `recall=0.9`, `precision=0.95` or `candidates=0.9`."""
        examples = self._new_examples(X)
        check_consistent_length(examples, y)
        return self.predictor_.promise(_labelled(examples, self._labelling.alike(y), y), goal, confidence)

    def predict_candidates(self, X: Any, level: float) -> list[CandidateList]:
        """For every example the shortest list of label sets that keeps the promise `candidates=level`."""
        found = self.predictor_.predict(self._new_examples(X), candidates=level)
        return [prediction.candidates for prediction in found if prediction.candidates is not None]

    def predict_sets(self, X: Any, promise: str | None = None) -> list[LabelSet]:
        """The labels of every example in the order they were generated, with the probability of the set and the other
        sets that the search held."""
        examples = self._new_examples(X)
        if promise is not None:
            decoder = NAMED + promise
            return [found.label_sets[decoder] for found in self.predictor_.predict(examples, [decoder])]
        if self.decoder and self.optimize_for:
            raise OrderfreeError("decoder names a decoder and optimize_for lets validation choose one; give one.")
        chosen = BEST + self.optimize_for if self.optimize_for else self.decoder or self.predictor_.default_decoder
        return [found.label_sets[chosen] for found in self.predictor_.predict(examples, [chosen])]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, classes) the probability of every label, columns as in `classes_`; where every example has one label,
        each row sums to 1. A class that no training example has is given 0."""
        examples = self._new_examples(X)
        found = self.predictor_.predict_proba(examples)  # (N, L)
        probs = np.zeros((len(found), len(self.classes_)))
        column_of = {name: column for column, name in enumerate(self._labelling.names)}
        probs[:, [column_of[name] for name in self.predictor_.labels.names]] = found
        return probs / probs.sum(axis=1, keepdims=True) if self._labelling.kind == "column" else probs

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Subset accuracy, as scikit-learn's classifiers have it: the share of examples whose labels are all right, of
        the labels and examples that are known."""
        predicted = [set(found.labels) for found in self.predict_sets(X)]
        check_consistent_length(predicted, y)
        own = self._labelling.alike(y)
        weights = np.ones(len(predicted)) if sample_weight is None else np.array(sample_weight, dtype=float)
        right = np.zeros(len(predicted))
        for place, (names, unknown) in enumerate(zip(own.read(y), own.unknown(y), strict=True)):
            right[place] = set(names) == predicted[place] - set(unknown or ())
            weights[place] *= unknown is not None
        return float(np.average(right, weights=weights))

    def save(self, directory: str | Path) -> None:
        """Writes the model directory that `orderfree train` writes; `load` and every command read it."""
        check_is_fitted(self)
        directory = Path(directory)
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise OrderfreeError(f"{directory}: already exists; name a new directory.")
        trained: TrainedModel = self.predictor_.trained
        with writing_directory(directory) as aside:
            save_model(trained, aside, model_card(trained))
            write_text(aside / "history.jsonl", "".join(json.dumps(row) + "\n" for row in self.history_))

    @classmethod
    def load(cls, directory: str | Path) -> OrderFreeClassifier:
        """A fitted classifier from a model directory, whoever wrote it. `predict` gives lists of labels where
        `orderfree train` did."""
        predictor = Predictor.load(directory)
        config = predictor.trained.config.model_dump()
        seed = config.pop("seed")
        settings = {f"{section}.{key}": value for section, keys in config.items() for key, value in keys.items()}
        loaded = cls(settings=settings, random_state=seed)
        loaded.history_ = read_history(Path(directory) / "history.jsonl")
        try:
            loaded._adopt(predictor.trained)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise ModelDirectoryError(f"{directory}: is no model of a classifier ({reason}); train it again.") from None
        return loaded

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def _adopt(self, trained: TrainedModel) -> None:
        """Takes a trained model for this classifier's own."""
        face = trained.provenance.get(FACE, {})
        names = trained.labels.names
        self._labelling = Labelling.stored(face.get("kind", "lists"), face.get("classes", sorted(names)), names)
        self._text = face.get("features") is None
        if not self._text:
            self.n_features_in_ = int(face["features"])
        if face.get("feature_names") is not None:
            self.feature_names_in_ = np.array(face["feature_names"], dtype=object)
        self.classes_ = self._labelling.classes
        self.n_validation_ = int(trained.provenance["valid_examples"])
        self.predictor_ = Predictor(trained)

    def _given(self, X: Any, y: Any, reset: bool) -> tuple[Any, Labelling]:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")  # scikit-learn's own words
        refuse_tables_of_text(X)
        if reset:
            self._text = is_text(X)
        checked = self._checked(X, reset=reset)
        check_consistent_length(checked, y)
        return checked, Labelling.of(y)

    def _all_classes(self, labelling: Labelling, classes: Any, first: bool) -> Labelling:
        """How y says labels, with all classes there will ever be."""
        known = self.classes_ if not first else labelling.classes if classes is None else np.asarray(classes)
        if first and classes is None and labelling.kind not in ("dense", "sparse"):  # a matrix has a column for each
            raise ValueError("classes must be passed on the first call to partial_fit.")  # scikit-learn's own words
        if labelling.kind in ("dense", "sparse"):
            if len(labelling.classes) != len(known):
                raise ValueError(f"y has {len(labelling.classes)} columns, expected {len(known)}, one for each class.")
        elif new := set(labelling.names) - {str(name) for name in known.tolist()}:
            raise ValueError(f"y holds {min(new)!r}, which is not among the classes of the first call to partial_fit.")
        return Labelling(labelling.kind, known)

    def _training_examples(
        self, checked: Any, y: Any, labelling: Labelling, config: Config, sample_weight: Any, validation: Any
    ) -> tuple[list[Example], list[Example] | None]:
        """What is trained on, and where it is given what is held out."""
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, checked, dtype=np.float64, ensure_non_negative=True)
        examples = _labelled(self._examples(checked, config), labelling, y, weights)
        if validation is None:
            return examples, None
        inputs, targets = self._checked(validation[0]), validation[1]
        return examples, _labelled(self._examples(inputs, config), labelling.alike(targets), targets)

    def _finish(self, trained: TrainedModel, labelling: Labelling) -> None:
        """Notes in the model how y said labels, and takes it for this classifier's own."""
        columns = getattr(self, "feature_names_in_", None)
        trained.provenance[FACE] = {
            "kind": labelling.kind,
            "classes": labelling.classes.tolist(),
            "features": None if self._text else self.n_features_in_,
            "feature_names": None if columns is None else columns.tolist(),
        }
        self._adopt(trained)

    def _config(self, dense: bool, column: bool) -> Config:
        keys: dict[str, Any] = {"training.tensorboard": False}
        if isinstance(self.random_state, int | np.integer):
            keys["seed"] = int(self.random_state)
        else:
            keys["seed"] = int(check_random_state(self.random_state).randint(2**31))
        if dense and self.config is None:
            keys["model.encoder"] = "dense"
        if column:  # exactly one label an example
            keys |= {"decoding.min_labels": 1, "decoding.max_labels": 1}
        keys |= self.settings or {}
        if self.encoder is not None:
            keys["model.encoder"] = self.encoder
        if self.decoder is not None:
            keys["decoding.decoder"] = self.decoder
        given = [f"{key}={json.dumps(value, default=lambda number: number.item())}" for key, value in keys.items()]
        if self.config is not None and not isinstance(self.config, str | Path):
            raise OrderfreeError(f"config is {self.config!r}, expected a YAML file; give config keys as settings=….")
        return load_config(None if self.config is None else Path(self.config), given, self.preset)

    def _train(
        self,
        config: Config,
        examples: list[Example],
        held_out: list[Example] | None,
        earlier: TrainedModel | None = None,
    ) -> tuple[TrainedModel, list[dict[str, Any]]]:
        """The model and its history; the run's own directory goes, torch's threads and random state stay."""
        threads, exactness = torch.get_num_threads(), products()
        with tempfile.TemporaryDirectory(prefix="orderfree-") as folder, torch.random.fork_rng():
            out = Path(folder) / "run"
            say = print if self.verbose else log_line
            before = None if earlier is None else Path(folder) / "earlier"
            if earlier is not None and before is not None:
                before.mkdir()
                save_model(earlier, before, model_card(earlier))
            try:
                trained = train(config, examples, held_out, out, say=say, progress=self.verbose, warm_start=before)
                return trained, read_history(out / "history.jsonl")
            except Interrupted:
                raise KeyboardInterrupt from None
            finally:
                torch.set_num_threads(threads)
                if exactness is not None:
                    torch.set_float32_matmul_precision(exactness)

    def _checked(self, X: Any, reset: bool = False) -> Any:
        """Texts as a list, features as a float matrix with the columns that `fit` saw."""
        if self._text and isinstance(X, list | tuple) and not X:
            return []
        if self._text and not is_text(X):
            refuse_tables_of_text(X)
            raise ValueError("X is no column of texts, and this classifier was fitted on texts.")
        if self._text:
            return texts_of(X)
        return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=(np.float64, np.float32))

    def _examples(self, checked: Any, config: Config) -> list[Example]:
        if self._text:
            return text_examples(checked)
        return feature_examples(checked, dense=input_kind(config) == "dense")

    def _new_examples(self, X: Any) -> list[Example]:
        check_is_fitted(self)
        return self._examples(self._checked(X), self.predictor_.trained.config)


def _labelled(examples: list[Example], labelling: Labelling, y: Any, weights: Any = None) -> list[Example]:
    """The same examples with their labels; those that count nothing are left out."""
    counted = np.ones(len(examples)) if weights is None else weights
    return [
        replace(example, labels=labels, weight=float(weight), unknown=unknown)
        for example, labels, unknown, weight in zip(
            examples, labelling.read(y), labelling.unknown(y), counted, strict=True
        )
        if weight > 0
    ]


def _refuse_one_class(examples: list[Example]) -> None:
    if len(seen := {label for example in examples for label in example.labels or ()}) < 2:
        raise ValueError(f"y holds {len(seen)} class, expected at least two classes (labels) to choose from.")


def _refuse_solved(config: Config, text: bool) -> None:
    if text:
        raise ValueError(
            "partial_fit cannot read texts, whose vocabulary is made from all of them at once; use fit, or give it "
            "features that need no fitting (scikit-learn's HashingVectorizer, sentence embeddings)."
        )
    if scores_labels(config):
        raise ValueError(
            "partial_fit trains by gradient, and the classifiers of the encoder 'linear' are solved on all examples at "
            "once; use fit, or choose encoder='sparse' (for a dense matrix 'dense')."
        )


def _as_wide(example: Example, features: int) -> Example:
    """The same with a term of weight 0 at the end: how wide X is must not depend on the examples of the first call."""
    given = example.features
    if not isinstance(given, SparseVector) or (len(given.indices) and given.indices[-1] == features - 1):
        return example
    indices = np.append(given.indices, np.int32(features - 1))
    return replace(example, features=SparseVector(indices, np.append(given.values, np.float32(0))))
