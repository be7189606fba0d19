"""Checks of values: VyOS's common validators, in process, and external ones by name."""

from __future__ import annotations

import ipaddress
import re
import shlex
import subprocess
from collections.abc import Callable

from ztsh import places
from ztsh.schema import Constraint, Node


def fits(node: Node, value: str) -> bool:
    """Whether a value passes the constraints of its node; one without constraints takes anything printable."""
    if any(ord(c) < 32 for c in value):
        return False
    if not node.constraints and not node.groups:
        return True
    return any(_passes(c, value) for c in node.constraints) or any(all(_passes(c, value) for c in group) for group in node.groups)


def _passes(constraint: Constraint, value: str) -> bool:
    if constraint.kind == "regex":
        pattern = constraint.name.replace("[[:ascii:]]", "[\\x00-\\x7f]")
        return re.fullmatch(pattern, value) is not None
    if constraint.name == "numeric":
        return _numeric(constraint.argument, value)
    built_in = _BUILT_IN.get(constraint.name)
    return built_in(value) if built_in else _external(constraint, value)


def _numeric(argument: str, value: str) -> bool:
    """VyOS's ``numeric``: an integer, or with ``--float`` a decimal, inside one of the ranges."""
    words = shlex.split(argument)
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?" if "--float" in words else r"-?[0-9]+", value):
        return False
    number = float(value)
    if ("--positive" in words and number <= 0) or ("--non-negative" in words and number < 0):
        return False
    ranges = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--range"]
    limits = [re.fullmatch(r"(-?[0-9.]+)-(-?[0-9.]+)", r) for r in ranges]
    return not ranges or any(m is not None and float(m[1]) <= number <= float(m[2]) for m in limits)


def _version(check: Callable[[str], object], version: int | None) -> Callable[[str], bool]:
    def passes(value: str) -> bool:
        try:
            made = check(value)
        except ValueError:
            return False
        return version is None or getattr(made, "version", None) == version

    return passes


def _host(value: str) -> object:
    if "/" not in value:
        raise ValueError(value)
    return ipaddress.ip_interface(value)


def _prefix(value: str) -> object:
    if "/" not in value:
        raise ValueError(value)
    return ipaddress.ip_network(value)


_BUILT_IN: dict[str, Callable[[str], bool]] = {
    f"{family}-{what}": _version(check, version)
    for family, version in (("ip", None), ("ipv4", 4), ("ipv6", 6))
    for what, check in (("address", ipaddress.ip_address), ("host", _host), ("prefix", _prefix))
}


def _external(constraint: Constraint, value: str) -> bool:
    program = places.validators() / constraint.name
    try:
        done = subprocess.run(
            [str(program), *shlex.split(constraint.argument), value],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
