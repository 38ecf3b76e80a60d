"""What the machine offers: memory, with a refusal in time for what does not fit, and arithmetic in bfloat16."""

from __future__ import annotations

from pathlib import Path

from embodied.errors import UserError

RESERVE = 0.9
"""Share of the free memory that a replay, networks or a batch may take."""


def available_bytes() -> int | None:
    """Memory that this process could still take: what the machine has free, within its control group's limit.

    None where the system does not tell (no /proc).
    """
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    limits = [value for value in (free, _cgroup_free()) if value is not None]
    return min(limits) if limits else None


def refuse_too_large(rows: int, bytes_per_row: int) -> None:
    """
    Raises:
        UserError: So many rows would not fit in memory; says how many would.
    """
    free = available_bytes()
    if free is None or rows * bytes_per_row <= RESERVE * free:
        return
    fitting = int(RESERVE * free) // bytes_per_row
    raise UserError(
        f"replay.capacity={rows} needs {rows * bytes_per_row / 2**30:.1f} GiB ({bytes_per_row} bytes a row), "
        f"{free / 2**30:.1f} GiB are free: give at most replay.capacity={fitting}"
    )


def refuse_beyond_memory(needed: int, what: str, remedy: str) -> None:
    """
    Args:
        needed: Bytes.
        what: The setting that asks for them.
        remedy: What to do instead.

    Raises:
        UserError: They would not fit in memory.
    """
    free = available_bytes()
    if free is not None and needed > RESERVE * free:
        raise UserError(f"{what} needs about {needed / 2**30:,.1f} GiB, {free / 2**30:.1f} GiB are free: {remedy}")


def processor_flags() -> frozenset[str]:
    """What the processor says it can do, in Linux' words; empty where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text("ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(
        next((line.split(":", 1)[1].split() for line in lines if line.startswith(("flags", "Features"))), ())
    )


def has_bfloat16() -> bool:
    """Whether the processor has dot products of bfloat16 numbers."""
    return not processor_flags().isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})


def _cgroup_free() -> int | None:
    """What the version-2 control group of this process leaves, where it has a limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text("ascii").strip()
        used = int((folder / "memory.current").read_text("ascii"))
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(int(limit) - used, 0)
