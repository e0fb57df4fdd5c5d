"""A signature of a model directory, made and checked by OpenSSH: it says who wrote the manifest, and the manifest says
what every other file is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ..checkpoint import check_directory
from ..errors import MissingLibraryError, ModelDirectoryError, OrderfreeError
from ..system.files import write_text
from ..system.listed import MANIFEST, read_plain

SIGNATURE = f"{MANIFEST}.sig"
NAMESPACE = "orderfree"  # a signature made for another purpose is none of a model


def sign(directory: Path, key: Path) -> Path:
    """Writes the signature of a finished model directory, made with a private key; OpenSSH asks for its passphrase."""
    check_directory(directory)
    if not key.is_file():
        raise OrderfreeError(f"{key}: there is no such key; make one with `ssh-keygen -t ed25519 -f {key}`.")
    done = _openssh(["-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key)], read_plain(directory / MANIFEST))
    if done.returncode:
        raise OrderfreeError(f"{key}: cannot sign ({_last_line(done.stderr)}); give a private key of OpenSSH.")
    write_text(directory / SIGNATURE, done.stdout.decode("ascii"))
    return directory / SIGNATURE


def verify(directory: Path, signers: Path) -> str:
    """Who of these signers signed this directory as it is now. `signers`: a file of OpenSSH, `name key` a line."""
    if not signers.is_file():
        raise OrderfreeError(f"{signers}: there is no such file; expected lines `name ssh-ed25519 key`.")
    if not (directory / SIGNATURE).exists():
        raise ModelDirectoryError(f"{directory}: is not signed (it has no {SIGNATURE}); `orderfree sign` signs it.")
    read_plain(directory / SIGNATURE)
    manifest = read_plain(directory / MANIFEST)
    common = ["-s", str(directory / SIGNATURE), "-f", str(signers)]
    names = _openssh(["-Y", "find-principals", *common], manifest)
    name = (names.stdout.decode("utf-8", errors="replace").splitlines() or [""])[0]
    if names.returncode or not name:
        raise ModelDirectoryError(f"{directory / SIGNATURE}: was made by none of the signers in {signers}.")
    done = _openssh(["-Y", "verify", "-n", NAMESPACE, "-I", name, *common], manifest)
    if done.returncode:
        raise ModelDirectoryError(
            f"{directory / SIGNATURE}: is no signature of this {MANIFEST}, which was changed after {name} signed; "
            "get the directory again."
        )
    check_directory(directory)
    return name


def _openssh(arguments: list[str], content: bytes) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise MissingLibraryError("signatures are made and checked by ssh-keygen of OpenSSH 8.2 or later; install it.")
    return subprocess.run([program, *arguments], input=content, capture_output=True)


def _last_line(told: bytes) -> str:
    return (told.decode("utf-8", errors="replace").strip().splitlines() or ["no reason given"])[-1]
