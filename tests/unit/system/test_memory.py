"""How much memory is left, as machines and containers say it."""

from __future__ import annotations

from pathlib import Path

from orderfree.system.memory import available_memory


def test_the_smaller_of_machine_and_container(tmp_path: Path) -> None:
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal:  9000 kB\nMemAvailable:  5000 kB\n", encoding="ascii")
    assert available_memory(machine, tmp_path) == 5000 * 1024
    (tmp_path / "memory.max").write_text("3000\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("1000\n", encoding="ascii")
    assert available_memory(machine, tmp_path) == 2000
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert available_memory(machine, tmp_path) == 5000 * 1024


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert available_memory(tmp_path / "nothing", tmp_path / "nowhere") is None
