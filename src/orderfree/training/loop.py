"""The training loop: fit -> run_epoch -> train_step."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from ..build import build_criterion, decoders_of, is_shortlisted, preferred_decoder
from ..checkpoint import TrainedModel
from ..data.batching import batches_per_epoch, label_balanced, length_bucketed
from ..decoding.search import searches
from ..errors import TrainingError, out_of_memory
from ..inference import Predictor
from ..system.precision import BFLOAT16, multiplying_in_bfloat16
from ..types import Batch, LossTerms, on_device
from .distributed.processes import ALONE, Team
from .distributed.sharding import clip, gathered, is_part, local_part, shard, whole
from .prepare import Prepared
from .state import Progress, load_state, on_host, save_state, snapshot
from .step import losses
from .validation import Validation, validate
from .weights import label_balance, loss_weights

SHORTLISTED_UPDATES = 1_000  # where labels are thousands: `training.max_updates` says otherwise
SHORTLISTED_RATE = 0.1  # of the learning rate there: most labels have few examples, and weights of their own


class Listener(Protocol):
    """Receives the events of a run; history, progress bars and TensorBoard are listeners."""

    def started(self, progress: Progress, total_updates: int) -> None: ...

    def updated(self, progress: Progress, loss: float) -> None: ...

    def validated(self, progress: Progress, row: dict[str, Any]) -> None: ...

    def ended(self, progress: Progress) -> None: ...


@dataclass
class Stop:
    """Requests to stop, set by a signal handler or a timer; the loop finishes its step first."""

    requested: bool = False  # save and end, to be resumed
    finish: bool = False  # validate once more and end the run, with the best weights so far


@contextmanager
def after(seconds: float | None, act: Callable[[], None]) -> Iterator[None]:
    """Calls `act` after so many seconds, unless the block has ended by then."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass
class Trainer:
    trained: TrainedModel
    data: Prepared
    directory: Path  # where states are saved
    listeners: list[Listener] = field(default_factory=list)
    stop: Stop = field(default_factory=Stop)
    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = lambda _: None
    team: Team = ALONE
    agreed: Stop = field(default_factory=Stop)  # the requests that all processes of a team agreed on at the last update
    save_due: bool = False

    def __post_init__(self) -> None:
        self.config = self.trained.config
        settings = self.config.training
        self.criterion = build_criterion(self.config, self.trained.labels)
        self.balance = label_balance(self.config, self.trained.labels, len(self.data.train))
        self.network = self.trained.network
        self.accelerator = Accelerator()
        self.network.to(self.accelerator.device)  # not wrapped: the team sums gradients itself
        self.bare = self.share_out() if self.team.shards else None
        # an SVM has no parameters to train by gradient descent: it is only validated once
        descends = any(weights.requires_grad for weights in self.network.parameters())
        optimizer = torch.optim.AdamW(
            self.parameter_groups() if descends else [torch.zeros(1, requires_grad=True)],
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.optimizer = self.accelerator.prepare_optimizer(optimizer)
        self.progress = Progress()
        self.best: dict[str, Tensor] | None = None
        self.saved_at = self.clock()
        train = self.data.train
        batches = batches_per_epoch(len(train.decodable), settings.batch_size)
        most = settings.max_updates or (settings.epochs * batches if train.shortlists is None else SHORTLISTED_UPDATES)
        self.total_updates = min(settings.epochs * batches, most)
        self.total_updates *= descends
        self.validate_every = min(settings.validate_every or batches, self.total_updates)
        self.warmup_updates = getattr(self.criterion.sequence, "warmup", 0.0) * self.total_updates
        self.select_decoder = preferred_decoder(self.config)
        self.validated_decoders = [
            decoder
            for decoder in decoders_of(self.config, is_shortlisted(self.network))
            if decoder in (self.select_decoder, "br") or (settings.validate_all and not searches[decoder].over_sets)
        ]

    @property
    def ending(self) -> Stop:
        """The requests in force; of several processes, only those that all of them know, to stay synchronised."""
        return self.stop if self.team.size == 1 else self.agreed

    def fit(self) -> bool:
        """Trains to the end, from the last saved state if there is one. False: stopped before the end, and saved."""
        if not self.team.leads:
            self.team.wait()  # the first process removes damaged states
        resumed = load_state(self.directory, self.network, self.optimizer, self.say)
        if resumed is not None:
            self.progress, self.best = resumed
        if self.team.leads:
            self.team.wait()
        if self.team.size > 1:
            self.progress.pieces = 1  # a share of a batch is small, and processes must stay synchronised
        for listener in self.listeners:
            listener.started(self.progress, self.total_updates)
        try:
            if self.total_updates == 0:
                self.run_validation()
            while not self.progress.finished:
                if not self.run_epoch():
                    return False
        finally:
            for listener in self.listeners:
                listener.ended(self.progress)
        if self.bare is not None:
            assert self.best is not None
            self.network.encoder = self.bare  # the leading process continues without the others
            self.network.load_state_dict(self.best, assign=True)
            self.network.to(self.accelerator.device)
        elif self.best is not None:
            self.network.load_state_dict(self.best)
        return True

    def epoch_batches(self) -> list[np.ndarray]:
        train, size, seed = self.data.train, self.config.training.batch_size, self.config.seed
        rows, epoch = train.decodable, self.progress.epoch
        if self.config.training.balanced:
            labels, examples = train.label_entries()
            kept = np.isin(examples, rows)
            at = np.searchsorted(rows, examples[kept])
            batches = label_balanced(labels[kept], at, len(rows), size, seed, epoch)
        else:
            batches = length_bucketed(train.lengths[rows], size, seed, epoch)
        return [rows[batch] for batch in batches]

    def run_epoch(self) -> bool:
        batches = self.epoch_batches()
        while self.progress.batch < len(batches) and not self.progress.finished:
            loss = self.train_step(batches[self.progress.batch])
            self.progress.batch += 1
            self.progress.update += 1
            for listener in self.listeners:
                listener.updated(self.progress, loss)
            due = self.progress.update % self.validate_every == 0 or self.progress.update == self.total_updates
            if due or self.ending.finish:
                self.run_validation()
            if self.progress.batch == len(batches):
                self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
                batches = []
            if self.ending.requested or self.save_due:
                self.save()
            if self.ending.requested and not self.progress.finished:
                return False
        return True

    def train_step(self, batch: np.ndarray) -> float:
        """One update from the rows of a batch, which several processes share."""
        self.network.train()
        self.set_learning_rate()
        rows, self.share = self.team.share_of(batch)
        self.team.seed(self.config.seed, self.progress.update)
        while (terms := self.descend(rows)) is None:
            self.halve(len(rows))
        terms = self.add_up(terms)
        self.check_finite(self.clip(), "the gradient's norm", self.progress.update + 1)
        self.optimizer.step()
        for name, value in terms.items():
            self.progress.loss_sums[name] = self.progress.loss_sums.get(name, 0.0) + value
        self.progress.loss_count += 1
        return terms["loss"]

    def clip(self) -> float:
        largest = self.config.training.clip_norm
        if not self.team.shards:
            return float(self.accelerator.clip_grad_norm_(self.network.parameters(), largest))
        self.accelerator.unscale_gradients(self.optimizer)
        return float(clip(self.network.parameters(), largest))

    def descend(self, rows: np.ndarray) -> dict[str, float] | None:
        """Gradient and losses of a batch, summed over its pieces; None if there is not enough memory for a piece."""
        self.optimizer.zero_grad(set_to_none=True)
        sums: dict[str, float] = {}
        try:
            for piece in np.array_split(rows, min(self.progress.pieces, max(len(rows) // 2, 1))):
                share = self.share * len(piece) / len(rows)  # losses are means over examples
                loss_terms = self.losses(self.to_device(self.data.train.batch(piece)))
                named_terms = {"loss": loss_terms.total.detach(), **loss_terms.terms}
                values = torch.stack([term.detach() for term in named_terms.values()]).tolist()  # one synchronisation
                self.check_finite(values[0], "the loss", self.progress.update + 1)
                self.accelerator.backward(loss_terms.total * share)
                for name, value in zip(named_terms, values, strict=True):
                    sums[name] = sums.get(name, 0.0) + value * share
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            return None
        return sums

    def add_up(self, terms: dict[str, float]) -> dict[str, float]:
        """Sums gradient and losses over processes and exchanges requests; the leader's clock decides when to save."""
        save = self.team.leads and self.clock() - self.saved_at >= 60 * self.config.training.save_minutes
        requests = [float(request) for request in (self.stop.requested, self.stop.finish, save)]
        *values, stop, finish, due = self.team.add_gradients(self.network.parameters(), [*terms.values(), *requests])
        self.save_due = due > 0
        self.agreed = Stop(stop > 0, finish > 0)  # a request that arrives during the sum waits for the next update
        self.team.average_statistics(self.network)
        return dict(zip(terms, values, strict=True))

    def steps_of(self, active: Tensor) -> Tensor:
        """The divisor with which the losses of all processes sum to the mean over all their steps."""
        return self.team.added(active.sum()) * (self.share if self.team.size > 1 else 1)

    def halve(self, rows: int) -> None:
        """Computes batches in twice as many pieces from now on. The update stays the same except for rounding, sampled
        labels and, with `br_batch_norm`, the statistics of normalisation."""
        self.optimizer.zero_grad(set_to_none=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.progress.pieces *= 2
        # batch normalisation needs two rows, and processes that share a batch must stay synchronised
        if rows < 2 * self.progress.pieces or self.team.size > 1:
            raise TrainingError(
                f"there is not enough memory for {rows:,} examples at update {self.progress.update + 1:,}; the last "
                "saved state is kept. Lower training.batch_size, data.max_words or the sizes under model, and start "
                "again with --overwrite."
            )
        self.say(f"not enough memory for a whole batch: batches are now computed in {self.progress.pieces} pieces")

    def losses(self, batch: Batch) -> LossTerms:
        """The losses of `step.py`, in the precision of the config or of accelerate."""
        done = self.progress.update / self.total_updates
        weights = loss_weights(batch, self.balance)
        shorter = self.config.training.precision == BFLOAT16
        device = batch.targets.device.type
        products = multiplying_in_bfloat16(device) if shorter else self.accelerator.autocast()
        return losses(self.network, self.criterion, batch, done, weights, self.steps_of, products)

    def to_device(self, batch: Batch) -> Batch:
        device = self.accelerator.device
        parts = (batch.weights, batch.unknown, batch.labels)
        moved = (None if part is None else part.to(device) for part in parts)
        return Batch(on_device(batch.inputs, device), batch.targets.to(device), batch.rows, *moved)

    def set_learning_rate(self) -> None:
        settings, done = self.config.training, self.progress.update / self.total_updates
        rate = settings.learning_rate * (1.0 if self.data.train.shortlists is None else SHORTLISTED_RATE)
        if settings.schedule == "linear":
            rate *= 1 - done
        if done < settings.warmup:
            rate *= (self.progress.update + 1) / (settings.warmup * self.total_updates + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """In the order of `network.parameters()`, by which saved optimiser states are numbered. If a part of the
        encoder is pretrained, `encoder_rate` applies to this part only: new parts need the full learning rate."""
        encoder = self.network.encoder
        pretrained = [part for part in encoder.modules() if hasattr(part, "load_pretrained")]
        slow = {id(weights) for part in pretrained or [encoder] for weights in part.parameters()}

        def kind(weights: Tensor) -> tuple[float, bool]:
            return self.config.training.encoder_rate if id(weights) in slow else 1.0, is_part(weights)

        return [{"params": list(run), "share": share} for (share, _), run in groupby(self.network.parameters(), kind)]

    def share_out(self) -> nn.Module:
        encoder, processes = self.network.encoder, self.team.size
        bare = shard(encoder, processes, self.accelerator.device)
        held = sum(local_part(weights).numel() for weights in encoder.parameters())
        total = sum(weights.numel() for weights in encoder.parameters())
        self.say(
            f"the {total:,} parameters of the encoder are divided among {processes} processes; this one holds {held:,}"
        )
        return bare

    def run_validation(self) -> None:
        with gathered(self.network):  # processes have different numbers of batches to predict
            self.check_weights()
            validation = validate(Predictor(self.trained), self.data.valid, self.validated_decoders, self.team)
        score = validation.scores[self.select_decoder][self.config.training.select_metric]
        progress = self.progress
        counts = progress.update > self.warmup_updates
        if counts and progress.best_update <= self.warmup_updates:
            progress.best_score = None  # the best score of the warm-up does not count after it
        if progress.best_score is None or score > progress.best_score:
            progress.best_score, progress.best_update, progress.worse_validations = score, progress.update, 0
            self.best = on_host(self.network.state_dict())
        else:
            progress.worse_validations += counts
        patience = self.config.training.patience
        impatient = patience is not None and progress.worse_validations >= patience
        progress.finished = self.ending.finish or progress.update >= self.total_updates or impatient
        row = self.history_row(validation)
        progress.loss_sums, progress.loss_count = {}, 0
        for listener in self.listeners:
            listener.validated(progress, row)
        if impatient and progress.update < self.total_updates:
            self.say(
                f"stopped early at update {progress.update:,} of {self.total_updates:,}: validation has not improved "
                f"since update {progress.best_update:,}, whose weights are kept (training.patience={patience})"
            )

    def history_row(self, validation: Validation) -> dict[str, Any]:
        progress = self.progress
        means = {name: total / max(progress.loss_count, 1) for name, total in progress.loss_sums.items()}
        return {
            "update": progress.update,
            "total_updates": self.total_updates,
            "epoch": progress.epoch + 1,
            **{name if name == "loss" else f"loss_{name}": value for name, value in means.items()},
            "threshold": validation.threshold,
            "validation": validation.scores,
            "best": progress.best_update == progress.update,
        }

    def check_finite(self, value: float, what: str, update: int) -> None:
        if not math.isfinite(value):
            raise TrainingError(
                f"{what} became {value} at update {update:,}; the last good state is kept. "
                "Lower training.learning_rate or training.clip_norm and start again with --overwrite."
            )

    def check_weights(self) -> None:
        """Weights can become infinite even if loss and gradient were finite: such a state is not scored or saved."""
        largest = max(float(whole(weights.detach().abs().max())) for weights in self.network.parameters())
        self.check_finite(largest, "a weight", self.progress.update)

    def save(self) -> None:
        self.check_weights()
        if self.team.leads or self.team.shards:
            files = snapshot(self.network, self.optimizer, self.best)
            if self.team.leads:
                save_state(self.directory, self.progress, files)
        self.saved_at = self.clock()
