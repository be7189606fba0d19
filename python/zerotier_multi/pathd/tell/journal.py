"""Events into the journal, with fields that journalctl can be asked for."""

from __future__ import annotations

from systemd import journal

from zerotier_multi.pathd.tell.events import Event

IDENTIFIER = "zerotier-pathd"


def tell(event: Event) -> None:
    """Write an event; a journal that takes none is no reason to stop."""
    try:
        journal.send(event.message, PRIORITY=str(event.priority), SYSLOG_IDENTIFIER=IDENTIFIER, **event.fields())
    except OSError:
        return
