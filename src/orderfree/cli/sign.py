"""`orderfree sign` and `orderfree verify`: who made a model directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .common import AsJson, RunDirectory


def sign(
    run: RunDirectory,
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="OpenSSH private key to sign with.")],
    as_json: AsJson = False,
) -> None:
    """Sign a model directory with an OpenSSH key, so that others can verify who made it."""
    from ..tools.signature import sign as write_signature

    path = write_signature(run, key)
    print(json.dumps({"signature": str(path)}) if as_json else f"{path}: written; it covers every file of the manifest")


def verify(
    run: RunDirectory,
    signers: Annotated[
        Path, typer.Option("--signers", metavar="FILE", help="File of trusted signers, one `name public-key` per line.")
    ],
    as_json: AsJson = False,
) -> None:
    """Verify that a model directory is what one of these signers signed, before it is loaded."""
    from ..tools.signature import verify as who_signed

    name = who_signed(run, signers)
    print(json.dumps({"signed_by": name}) if as_json else f"{run}: signed by {name}, every listed file as it was then")


ALL = (sign, verify)
