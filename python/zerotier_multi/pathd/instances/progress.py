"""Whether a process does anything at all, as the kernel counts it; nobody else's doing."""

from __future__ import annotations

from pathlib import Path

from zerotier_multi import systemd


def progress(unit: str, proc: Path = Path("/proc")) -> int | None:
    """A number that grows while the main thread of a unit's process runs; None when there is no such process.

    An engine's main thread wakes up every five seconds at least, whatever others do; one that is stopped, or waits for a
    lock that it never gets, does not.
    """
    try:
        pid = systemd.unit_states([unit])[unit].pid
        task = proc / str(pid) / "task" / str(pid)
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        counts = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line)
    except (OSError, systemd.SystemdError):
        return None
    switches = int(counts["voluntary_ctxt_switches"]) + int(counts["nonvoluntary_ctxt_switches"])
    return switches + int(fields[11]) + int(fields[12])
