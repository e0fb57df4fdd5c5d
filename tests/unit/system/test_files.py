"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orderfree.errors import OrderfreeError, TrainingError
from orderfree.system import files
from orderfree.system.files import (
    damage,
    fingerprint,
    locked,
    refuse_overwriting,
    remove_leftovers,
    write_checksums,
    write_json,
    write_text,
    writing,
    writing_aside,
    writing_directory,
)


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file.txt"
    with writing(path, "w") as file:
        file.write("größe\n")
        file.flush()
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "größe\n"
    assert everything(path.parent) == ["file.txt"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("before", [None, b"old"])
def test_an_exception_inside_leaves_what_was_there(tmp_path: Path, error: BaseException, before: bytes | None) -> None:
    path = tmp_path / "file.bin"
    if before is not None:
        path.write_bytes(before)

    def fail() -> None:
        with writing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert everything(tmp_path) == ([] if before is None else ["file.bin"])
    if before is not None:
        assert path.read_bytes() == before


def test_an_exception_inside_leaves_no_directory(tmp_path: Path) -> None:
    def fail() -> None:
        with writing_directory(tmp_path / "made") as aside:
            (aside / "a").write_text("half")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert everything(tmp_path) == []


def test_a_directory_appears_when_it_is_complete(tmp_path: Path) -> None:
    with writing_directory(tmp_path / "made") as aside:
        (aside / "a").write_text("1")
        assert not (tmp_path / "made").exists()
    assert everything(tmp_path) == ["made", "made/a"]


def refuse(code: int):
    def fsync(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    return fsync


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"old": 1})
    monkeypatch.setattr(files.os, "fsync", refuse(code))
    with pytest.raises(TrainingError, match="no space left on the disk") as caught:
        write_json(path, {"new": 2})
    assert str(path) in str(caught.value)
    monkeypatch.undo()
    assert everything(tmp_path) == ["file.json"]
    assert json.loads(path.read_text()) == {"old": 1}


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(files.os, "fsync", refuse(code))
    with pytest.raises(OrderfreeError, match="cannot be written") as caught:
        write_text(tmp_path / "file.txt", "x")
    assert str(tmp_path / "file.txt") in str(caught.value)


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OrderfreeError, match="cannot be written"):
        write_text(tmp_path / "file" / "below.txt", "x")


def test_json_is_utf_8_with_a_line_end(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "größe 字"})
    assert (tmp_path / "a.json").read_bytes().endswith('größe 字"\n}\n'.encode())


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".model.safetensors.abc123.part").write_text("half")
    (tmp_path / ".state.xyz.part").mkdir()
    (tmp_path / ".state.xyz.part" / "inner").write_text("half")
    for kept in ("model.safetensors", ".hidden", "a.part"):
        (tmp_path / kept).write_text("kept")
    remove_leftovers(tmp_path)
    assert everything(tmp_path) == [".hidden", "a.part", "model.safetensors"]


def test_what_is_written_aside_is_what_leftovers_look_like(tmp_path: Path) -> None:
    with writing_aside(tmp_path / "model.bin") as aside:
        assert aside.parent == tmp_path
        assert aside in set(tmp_path.glob(".*.part"))
        aside.write_bytes(b"x")


def test_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc" * 100_000)
    assert fingerprint(tmp_path / "a") == hashlib.sha256(b"abc" * 100_000).hexdigest()


COUNTING = """
import sys
from pathlib import Path
from orderfree.errors import OrderfreeError
from orderfree.system.files import locked

place = Path(sys.argv[1])
done = 0
while done < 100:
    try:
        with locked(place):
            counter = place / "counter"
            before = int(counter.read_text())
            counter.write_text(str(before + 1))
            done += 1
    except OrderfreeError:
        pass
"""


def test_only_one_process_holds_a_lock(tmp_path: Path) -> None:
    """Four processes add one a hundred times each; one that got in beside another would lose a count."""
    (tmp_path / "counter").write_text("0")
    command = [sys.executable, "-c", COUNTING, str(tmp_path)]
    started = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(timeout=120) for process in started] == [0, 0, 0, 0]
    assert (tmp_path / "counter").read_text() == "400"
    assert everything(tmp_path) == ["counter"]


def test_a_lock_names_its_holder_and_ends_with_an_error(tmp_path: Path) -> None:
    def hold_twice() -> None:
        with locked(tmp_path), locked(tmp_path):
            raise AssertionError("two at once")

    with pytest.raises(OrderfreeError, match=f"process {os.getpid()} on .* is working here"):
        hold_twice()
    assert everything(tmp_path) == []


def test_damage_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    assert damage(tmp_path) == "checksums.json"
    write_checksums(tmp_path)
    assert damage(tmp_path) is None
    (tmp_path / "b").write_text("c")
    assert damage(tmp_path) == "b"
    (tmp_path / "a").unlink()
    assert damage(tmp_path) == "a"
    for content in ("{", "[]"):
        (tmp_path / "checksums.json").write_text(content)
        assert damage(tmp_path) == "checksums.json"


def test_behind_a_link_the_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "file"
    link = tmp_path / "link"
    link.symlink_to(target)
    for text in ("new", "newer"):  # a link to nothing, and to a file
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text(encoding="utf-8") == text
    assert everything(tmp_path) == ["link", "there", "there/file"]
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(OrderfreeError, match="circle: cannot be written"):
        write_text(circle, "x")
    assert circle.is_symlink()


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_name_is_written_to(tmp_path: Path, path: str) -> None:
    """Also where it is a file: what is printed before and after stands around it."""
    code = f"""
import os, sys
from pathlib import Path
from orderfree.system.files import write_text
print("before", flush=True)
write_text(Path({path!r}), "text\\n")
print("after")
"""
    before = os.lstat("/dev/stdout").st_ino
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, timeout=60)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "before\ntext\nafter\n"
    assert everything(tmp_path) == ["out"]
    assert os.lstat("/dev/stdout").st_ino == before


def test_an_output_that_is_an_input(tmp_path: Path) -> None:
    source, other = tmp_path / "a.jsonl", tmp_path / "other"
    source.write_text("x")
    other.write_text("y")
    (tmp_path / "soft").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for name in ("a.jsonl", "soft", "hard", "./a.jsonl"):
        with pytest.raises(OrderfreeError, match=r"is read by this command \(.*a.jsonl\); write to another file"):
            refuse_overwriting([tmp_path / name], [source])
    with pytest.raises(OrderfreeError, match="is read by this command"):
        refuse_overwriting([source], [tmp_path])
    refuse_overwriting([other, tmp_path / "new", None, "-", "/dev/null"], [source, None, "-", "/dev/null"])


def test_a_descriptor_that_leads_to_an_input(tmp_path: Path) -> None:
    (source := tmp_path / "a.jsonl").write_text("x")
    with open(source, "ab") as out:
        with pytest.raises(OrderfreeError, match="is read by this command"):
            refuse_overwriting([f"/dev/fd/{out.fileno()}"], [source])
        refuse_overwriting([f"/dev/fd/{out.fileno()}"], [tmp_path / "other"])


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o755), (0o077, 0o700), (0o002, 0o775)])
def test_a_directory_has_the_permissions_the_user_gives_new_ones(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        with writing_directory(tmp_path / "made"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == mode


def test_a_file_gets_the_mode_the_user_wants(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "private", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # a writer waits until there is one
    write_text(tmp_path / "pipe", "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
