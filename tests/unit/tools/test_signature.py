"""`orderfree sign` and `verify`: a directory that was changed, or signed by somebody else, is told apart."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fuzz_models import seal

from orderfree.checkpoint import save_model, store_thresholds
from orderfree.cli.main import run
from orderfree.decisions.records import NamedThresholds
from unit_models import made_model

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")


def key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return path


def trusting(path: Path, **keys: Path) -> Path:
    lines = [f"{name}@example.org {own.with_suffix('.pub').read_text(encoding='utf-8')}" for name, own in keys.items()]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save_model(made_model(1), tmp_path / "model", "# a card\n")
    return tmp_path / "model"


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    def called(*words: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            run([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return int(ended.value.code or 0), captured.out + captured.err

    return called


def test_signed_and_verified(directory: Path, tmp_path: Path, call: Any) -> None:
    alice, mallory = key(tmp_path / "alice"), key(tmp_path / "mallory")
    signers = trusting(tmp_path / "signers", alice=alice)
    assert "is not signed" in call("verify", directory, "--signers", signers)[1]
    assert call("sign", directory, "--key", alice)[0] == 0
    code, told = call("verify", directory, "--signers", signers, "--json")
    assert (code, json.loads(told)) == (0, {"signed_by": "alice@example.org"})
    # files changed and the manifest made right again: checksums are content, the signature is not
    (directory / "README.md").write_text("# another card\n", encoding="utf-8")
    code, told = call("verify", directory, "--signers", signers)
    assert code == 2
    assert "does not match its checksum" in told or "bytes, expected" in told
    seal(directory)
    code, told = call("verify", directory, "--signers", signers)
    assert code == 2
    assert "changed after alice@example.org signed" in told
    # signed again, by somebody who is not trusted
    assert call("sign", directory, "--key", mallory)[0] == 0
    code, told = call("verify", directory, "--signers", signers)
    assert code == 2
    assert "none of the signers" in told
    assert call("verify", directory, "--signers", trusting(tmp_path / "both", alice=alice, mallory=mallory))[0] == 0


def test_new_thresholds_need_a_new_signature(directory: Path, tmp_path: Path, call: Any) -> None:
    alice = key(tmp_path / "alice")
    signers = trusting(tmp_path / "signers", alice=alice)
    call("sign", directory, "--key", alice)
    store_thresholds(directory, {"careful": NamedThresholds("br", 0.9, 0, "precision=0.9", {}, 20)})
    assert call("verify", directory, "--signers", signers)[0] == 2
    call("sign", directory, "--key", alice)
    assert call("verify", directory, "--signers", signers)[0] == 0


def test_a_signature_for_another_purpose(directory: Path, tmp_path: Path, call: Any) -> None:
    alice = key(tmp_path / "alice")
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", "file", "-f", str(alice), str(directory / "manifest.json")]
    subprocess.run(command, check=True)
    assert (directory / "manifest.json.sig").exists()
    assert call("verify", directory, "--signers", trusting(tmp_path / "signers", alice=alice))[0] == 2


def test_what_is_missing_is_said(directory: Path, tmp_path: Path, call: Any) -> None:
    assert "there is no such key" in call("sign", directory, "--key", tmp_path / "none")[1]
    (tmp_path / "text").write_text("no key\n", encoding="utf-8")
    assert "cannot sign" in call("sign", directory, "--key", tmp_path / "text")[1]
    assert not (directory / "manifest.json.sig").exists()
    assert "there is no such file" in call("verify", directory, "--signers", tmp_path / "none")[1]
    assert "is not a model directory" in call("sign", tmp_path, "--key", tmp_path / "text")[1]
