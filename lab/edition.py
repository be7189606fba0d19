"""What a person sees of an edition at its console: how one logs in, and what its prompts look like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edition:
    """The habits of an image. Prompts are regular expressions."""

    name: str
    user: str
    password: str  # as the image comes
    must_change: bool  # the first login asks for another password
    op: str
    conf: str
    shell: str  # what a login runs
    disk: str  # the first disk
    secure_boot: bool  # starts where the firmware demands a signature that it knows
    marks: bool = True  # its shell asks for bracketed paste, which VyOS's bash 4.1 does not
    greeting: str = ""  # what is typed after a login
    saved: str = "Done"  # what save says at the end
    root_tests: bool = True  # the smoketests run as root; VyOS runs its own as its user
    # What an emulated machine needs: VyOS's services and its Python do not fit into the memory that Debian's do.
    memory: int = 1024  # MiB
    cpus: int = 1
    # Seconds that an emulated machine may take: VyOS runs a program for each part of its configuration.
    boot: float = 600.0  # to the login prompt
    commit: float = 120.0
    test: float = 900.0  # for one test of the smoketest
    patience: float = 1.0  # what the smoketest stretches its own limits by

    login = r"\b(?!Last )\w+ login: "  # not the line that tells of the last one
    asks_password = r"[Pp]assword: "
    asks_current = r"[Cc]urrent password: "
    asks_new = r"[Nn]ew password: "
    asks_again = r"[Rr]etype new password: "


DEBIAN = Edition("debian", "admin", "admin", True, r"admin@\w+:[^\n$]*\$ ?", r"admin@\w+# ?", "ztsh", "/dev/vda", True)
VYOS = Edition(
    "vyos",
    "vyos",
    "vyos",
    False,
    r"vyos@\w+:[^\n$]*\$ ?",
    r"vyos@\w+# ?",
    "vbash",
    "/dev/vda",
    False,
    marks=False,
    greeting="set terminal length 0",
    saved="",
    root_tests=False,
    memory=4096,
    cpus=2,
    boot=1200.0,
    commit=400.0,
    test=3600.0,
    patience=10.0,
)
EDITIONS = {edition.name: edition for edition in (DEBIAN, VYOS)}
