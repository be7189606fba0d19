"""Logs of the live image, whose /var is in memory: journald and logrotate keep them short."""

from __future__ import annotations

import re
import stat
from pathlib import Path

LIVE = Path(__file__).resolve().parents[2] / "debian-image/live"
ETC = LIVE / "includes.chroot_after_packages/etc"


def test_logs_are_rotated() -> None:
    packages = (LIVE / "package-lists/router.list.chroot").read_text().splitlines()
    assert "logrotate" in packages
    hook = (LIVE / "hooks/normal/0500-router.hook.chroot").read_text().replace("\\\n", " ")
    off = [word for line in hook.splitlines() for word in line.split() if re.match("systemctl (mask|disable) ", line)]
    assert "dpkg-db-backup.timer" in off and "logrotate.timer" not in off


def test_a_log_is_rotated_within_an_hour_of_being_long() -> None:
    """Also btmp, of which the package's own lines say nothing but monthly."""
    conf = ETC / "logrotate.conf"
    lines = conf.read_text().splitlines()
    assert lines.index("maxsize 1M") < lines.index("include /etc/logrotate.d"), "options count for what is read after them"
    assert not stat.S_IMODE(conf.stat().st_mode) & 0o022, "logrotate ignores a file that others may write"
    assert "OnCalendar=\nOnCalendar=hourly\n" in (ETC / "systemd/system/logrotate.timer.d/router.conf").read_text()
