"""From the bytes of a request to what it asks. However wrong it is, a few short sentences say so."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.datastructures import Headers

from .problems import Problem, shortened
from .schema import ExplainRequest, PredictRequest, ServiceLimits

SHOWN = 5  # problems of one request
Asked = TypeVar("Asked", PredictRequest, ExplainRequest)


def check_media_type(headers: Headers) -> None:
    """Anything but JSON is refused: a browser sends text/plain across sites without asking first."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Problem("wrong-media-type", "send the body as JSON, with the header `Content-Type: application/json`.")


def read_request(kind: type[Asked], body: bytes, limits: ServiceLimits) -> Asked:
    fields = _read_json(body)
    if not isinstance(fields, dict):
        raise Problem("invalid", 'the body: expected a JSON object, such as {"text": "…"}.')
    texts = fields.get("texts")
    if isinstance(texts, list) and len(texts) > limits.texts:
        raise Problem("invalid", f"there are {len(texts):,} texts; a request may have {limits.texts:,}.")
    try:
        asked = kind.model_validate(_with_few_faults(fields, set(kind.model_fields)))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        sentences = [_sentence(fault) for fault in faults[:SHOWN]]
        raise Problem("invalid", " ".join(sentences), problems=sentences) from None
    _check_texts(asked.all_texts, limits)
    return asked


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        fault = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        reason = f"{fault} at line {error.lineno}, column {error.colno}"
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = shortened(str(error))
    raise Problem("bad-request", f"the body is no JSON: {reason}.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("an object has the same key twice")
    return fields


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _with_few_faults(fields: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The same request without what lies behind its first faults, so that a million of them take no time to tell."""
    unknown = islice((name for name in fields if name not in known), SHOWN)
    kept = {name: fields[name] for name in known if name in fields} | dict.fromkeys(unknown)
    texts, thresholds = fields.get("texts"), fields.get("thresholds")
    if isinstance(texts, list):
        wrong = list(islice((place for place, text in enumerate(texts) if not isinstance(text, str)), SHOWN))
        kept["texts"] = texts[: wrong[-1] + 1] if wrong else texts
    if isinstance(thresholds, dict):
        wrong_names = islice((name for name, value in thresholds.items() if not _is_share(value)), SHOWN)
        kept["thresholds"] = {name: thresholds[name] for name in wrong_names} or thresholds
    return kept


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _sentence(fault: Any) -> str:
    """Without the input, which may be a text that nobody is to read again."""
    where = shortened(".".join(str(part) for part in fault["loc"]))
    unknown = fault["type"] == "extra_forbidden"
    what = "unknown field; see /docs" if unknown else shortened(fault["msg"].removeprefix("Value error, "))
    return f"{where or 'the body'}: {what[0].lower()}{what[1:]}."


def _check_texts(texts: list[str], limits: ServiceLimits) -> None:
    for place, text in enumerate(texts):
        if len(text) > limits.characters:
            detail = f"text {place + 1} has {len(text):,} characters; it may have {limits.characters:,}."
            raise Problem("invalid", detail)
        try:
            text.encode()
        except UnicodeEncodeError:  # JSON can spell what no text can hold
            raise Problem("invalid", f"text {place + 1} holds one half of a surrogate pair.") from None
