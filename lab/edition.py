"""What a person sees of an edition at its console: how one logs in, and what its prompts look like."""

from __future__ import annotations

from dataclasses import dataclass

from lab.smoketest import PROGRAMS


@dataclass(frozen=True)
class Edition:
    """The habits of an image. Prompts are regular expressions."""

    name: str
    user: str
    password: str  # as the image comes
    must_change: bool  # the first login asks for another password
    op: str
    conf: str
    smoketest: str
    disk: str  # the first disk
    secure_boot: bool  # starts where the firmware demands a signature that it knows
    marks: bool = True  # its shell asks for bracketed paste, which VyOS's bash 4.1 does not
    greeting: str = ""  # what is typed after a login
    # Seconds that an emulated machine may take: VyOS runs a program for each part of its configuration.
    boot: float = 600.0  # to the login prompt
    commit: float = 120.0

    login = r"\b(?!Last )\w+ login: "  # not the line that tells of the last one
    asks_password = r"[Pp]assword: "
    asks_current = r"[Cc]urrent password: "
    asks_new = r"[Nn]ew password: "
    asks_again = r"[Rr]etype new password: "


_SMOKETEST = f"sh -c '{' && '.join(PROGRAMS)}'"
DEBIAN = Edition("debian", "admin", "admin", True, r"admin@\w+:[^\n$]*\$ ?", r"admin@\w+# ?", _SMOKETEST, "/dev/vda", True)
VYOS = Edition(
    "vyos", "vyos", "vyos", False, r"vyos@\w+:[^\n$]*\$ ?", r"vyos@\w+# ?", _SMOKETEST, "/dev/vda", False,
    marks=False, greeting="set terminal length 0", boot=1200.0, commit=400.0,
)
EDITIONS = {edition.name: edition for edition in (DEBIAN, VYOS)}
