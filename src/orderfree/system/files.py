"""Atomic writing of files (write aside, fsync, rename), locks of directories, checksums of files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ..errors import OrderfreeError, TrainingError

LOCK = ".lock"  # in a directory that a process is using
CHECKSUMS = "checksums.json"


STANDARD_OUTPUT = "-"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


@contextlib.contextmanager
def writing_aside(path: Path) -> Iterator[Path]:
    """A file to write to that appears under `path` only when it is complete and on disk.

    If `path` is a symbolic link, its target is replaced. A device, a pipe or a descriptor of this process is not
    replaced: the complete content is copied into it."""
    path = Path(path)
    if is_stream(path):
        with tempfile.TemporaryDirectory() as folder:
            aside = Path(folder) / path.name
            yield aside
            stream = _stream(path)
            # a descriptor is duplicated: opening its name again would write from the first byte
            target = os.dup(stream) if isinstance(stream, int) else stream
            with explained(path), open(aside, "rb") as content, open(target, "wb") as file:
                shutil.copyfileobj(content, file)
        return
    target = Path(os.path.realpath(path))
    with explained(path), making_directory(target.parent):
        if target.is_symlink():  # the path is part of a cycle of links
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:200]}.", suffix=".part")
        os.close(descriptor)
        aside = Path(name)
        try:
            yield aside
            sync_file(aside)
            aside.chmod(0o666 & ~_umask())  # mkstemp makes it private and ignores the user's umask
            aside.replace(target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync_directory(target.parent)


def is_standard_output(path: Path | str) -> bool:
    """`-`, and the names under which the system lists descriptor 1."""
    return str(path) in (STANDARD_OUTPUT, "/dev/stdout") or _descriptor(path) == 1


def is_stream(path: Path | str) -> bool:
    """Whether a path names a device, a pipe or a descriptor, which can be written to but not replaced."""
    if is_standard_output(path) or str(path) == "/dev/stderr" or _descriptor(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: Path | str) -> int | None:
    match = _DESCRIPTOR.fullmatch(str(path))
    return int(match[1]) if match else None


def _stream(path: Path) -> Path | int:
    """The number of a descriptor, or the path of anything else."""
    number = {"/dev/stdout": 1, STANDARD_OUTPUT: 1, "/dev/stderr": 2}.get(str(path), _descriptor(path))
    return path if number is None else number


def refuse_overwriting(outputs: Iterable[Path | str | None], inputs: Iterable[Path | str | None]) -> None:
    """Refuses an output that is one of the inputs, under any name, or a file inside an input folder. `-` is standard
    output among the outputs and standard input among the inputs; a shell may have redirected both to the same file."""
    read = [(path, status) for path in inputs if path is not None and (status := _status(path, 0)) is not None]
    for target in (path for path in outputs if path is not None):
        written = _status(target, 1)
        if written is None or not (stat.S_ISREG(written.st_mode) or stat.S_ISDIR(written.st_mode)):
            continue
        for source, status in read:
            if os.path.samestat(written, status) or _inside(target, source):
                named = "standard output" if is_standard_output(target) else target
                raise OrderfreeError(f"{named}: is read by this command ({source}); write to another file.")


def _status(path: Path | str, standard: int) -> os.stat_result | None:
    """Of what a path leads to, None where that is nothing; `standard`: the descriptor that `-` stands for."""
    stream: Path | str | int = standard if str(path) == STANDARD_OUTPUT else _stream(Path(path))
    try:
        return os.stat(stream)
    except (OSError, ValueError):
        return None


def _inside(file: Path | str, folder: Path | str) -> bool:
    return (
        os.path.isfile(file) and os.path.isdir(folder) and Path(file).resolve().is_relative_to(Path(folder).resolve())
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def writing(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """An open file that appears under `path` only when it is complete and on disk."""
    with writing_aside(path) as aside, open(aside, mode, encoding=None if "b" in mode else "utf-8") as file:
        yield file


def write_json(path: Path, content: Any) -> None:
    with writing(path, "w") as file:
        json.dump(content, file, indent=2, ensure_ascii=False, sort_keys=False)
        file.write("\n")


def write_text(path: Path, text: str) -> None:
    with writing(path, "w") as file:
        file.write(text)


@contextlib.contextmanager
def writing_directory(path: Path) -> Iterator[Path]:
    """A directory that appears under `path` only when everything in it is complete and on disk.

    `path` must not exist; the caller removes the directory that it replaces afterwards, so that one of the two always
    exists."""
    path = Path(path)
    with explained(path), making_directory(path.parent):
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        try:
            yield aside
            for file in aside.rglob("*"):
                if file.is_file():
                    sync_file(file)
            sync_directory(aside)
            aside.chmod(0o777 & ~_umask())  # mkdtemp makes it private and ignores the user's umask
            os.rename(aside, path)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        sync_directory(path.parent)


@contextlib.contextmanager
def making_directory(path: Path) -> Iterator[None]:
    """Makes a directory and its parents; if the block fails, the new ones that are empty are removed again."""
    made = [directory for directory in (path, *path.parents) if not directory.exists()]  # deepest first
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for directory in made:
                directory.rmdir()
        raise


def sync_file(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some network file systems cannot sync; the rename is still valid
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """Deletes the temporary files of a process that was killed."""
    for leftover in Path(directory).glob(".*.part"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Locks an existing directory against other processes. The system releases the lock of a process that has died."""
    path = directory / LOCK
    while True:
        file = _open_lock(path)  # stays open while the directory is locked
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with file:
                file.seek(0)
                holder = file.read() or "another process"
            raise OrderfreeError(
                f"{directory}: {holder} is working here; wait for it or choose another place."
            ) from None
        with contextlib.suppress(FileNotFoundError):  # its last holder may have removed the file just opened
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()
    with file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _open_lock(path: Path) -> IO[str]:
    """Does not follow a link, whose target would be overwritten, and does not wait for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        raise OrderfreeError(f"{path}: is not a regular file, expected one; remove it.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OrderfreeError(f"{path}: is not a regular file, expected one; remove it.")
    return open(descriptor, "r+", encoding="utf-8")


def fingerprint(path: Path) -> str:
    """SHA-256 of a file's bytes; of a folder, of the names and bytes of all files in it."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = [f"{fingerprint(file)} {file.relative_to(path).as_posix()}\n" for file in files]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(directory: Path) -> None:
    """Writes the checksum of every file of a directory."""
    checksums = {file.name: fingerprint(file) for file in sorted(directory.iterdir())}
    (directory / CHECKSUMS).write_text(json.dumps(checksums), encoding="utf-8")


def damage(directory: Path) -> str | None:
    """The first file of a directory that does not match its checksum; None: all match."""
    try:
        expected = json.loads((directory / CHECKSUMS).read_text(encoding="utf-8"))
        return next((name for name, known in expected.items() if fingerprint(directory / name) != known), None)
    except (OSError, ValueError, AttributeError) as error:
        return Path(getattr(error, "filename", None) or CHECKSUMS).name


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns errors of the file system into one sentence that names the path."""
    try:
        yield
    except BrokenPipeError:  # not a file: the reader of our standard output has closed it
        raise
    except OSError as error:
        raise refusal(error, path) from error


def refusal(error: OSError, path: Path | str) -> OrderfreeError:
    """An error of the file system as one sentence; the exit code is 1 for a full disk and 2 otherwise."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return TrainingError(
            f"no space left on the disk of {path}: what was complete before is kept; free some space and run again."
        )
    return OrderfreeError(f"{path}: cannot be written ({error.strerror or error}); choose another place.")
