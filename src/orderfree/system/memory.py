"""How much memory a process may still take."""

from __future__ import annotations

from pathlib import Path

CONTROL_GROUP = Path("/sys/fs/cgroup")  # of a container; its limit is below the machine's
MACHINE = Path("/proc/meminfo")


def available_memory(machine: Path = MACHINE, group: Path = CONTROL_GROUP) -> int | None:
    """Bytes that the machine, and the container where there is one, have left; None: the system does not say."""
    found = [_of_machine(machine), _of_group(group)]
    known = [value for value in found if value is not None]
    return min(known, default=None)


def _of_machine(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kilobytes[0]) * 1024 if kilobytes else None


def _of_group(folder: Path) -> int | None:
    try:
        most, used = ((folder / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return max(int(most) - int(used), 0) if most.isdigit() and used.isdigit() else None
