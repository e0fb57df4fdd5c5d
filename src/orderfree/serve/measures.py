"""What /metrics counts, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Measures:
    """One set for each service, so that two in one process do not count for one another."""

    def __init__(self, waiting: Callable[[], float], shift: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "orderfree_requests", "Requests answered", ["method", "path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "orderfree_request_seconds", "Time to answer", ["path"], buckets=SECONDS, registry=self.registry
        )
        self.running = Gauge("orderfree_requests_running", "Requests being answered", registry=self.registry)
        self.texts = Counter("orderfree_texts", "Texts given to the model", registry=self.registry)
        self.batch = Histogram(
            "orderfree_batch_texts", "Texts given to the model at once", buckets=SIZES, registry=self.registry
        )
        queue = Gauge("orderfree_queue_requests", "Requests that wait for the model", registry=self.registry)
        queue.set_function(waiting)
        shifted = Gauge(
            "orderfree_shift_p_value",
            "p-value of the newest 500 texts against the calibration examples of the promises; NaN: not known",
            registry=self.registry,
        )
        shifted.set_function(shift)
        ProcessCollector(registry=self.registry)  # memory, CPU time and open files, on Linux

    def saw_batch(self, texts: int) -> None:
        self.texts.inc(texts)
        self.batch.observe(texts)

    def saw_request(self, method: str, path: str, status: int, seconds: float) -> None:
        self.requests.labels(method, path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
