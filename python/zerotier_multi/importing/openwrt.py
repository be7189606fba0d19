"""OpenWrt's ``/etc/config/zerotier``, in its form since 2024 and the one before."""

from __future__ import annotations

import shlex
from pathlib import Path

from zerotier_multi.importing.home import TOOK, read_json
from zerotier_multi.importing.process import ImportProblem, Process, of_local_conf, port_of

# What OpenWrt takes for a truth value (config_get_bool of its /lib/functions.sh); anything else is the default.
_BOOLEANS = {
    **dict.fromkeys(("1", "on", "true", "yes", "enabled"), True), **dict.fromkeys(("0", "off", "false", "no", "disabled"), False),
}  # fmt: skip

Section = tuple[str, str, dict[str, list[str]]]  # type, name, options


def is_uci(text: str) -> bool:
    """Whether a text is a configuration of OpenWrt for ZeroTier."""
    return any(line.split()[:2] == ["config", "zerotier"] for line in text.splitlines())


def read_uci(text: str, file: Path) -> list[Process]:
    """The processes of a configuration, which is in ``file``. Raises :class:`ImportProblem`."""
    sections = _sections(text)
    networks = [options for kind, _name, options in sections if kind == "network"]
    return [_process(name or "global", options, networks, file) for kind, name, options in sections if kind == "zerotier"]


def _sections(text: str) -> list[Section]:
    found: list[Section] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            raise ImportProblem(f"line {number} is not of UCI's form (a quote is missing); correct it") from None
        if words[:1] == ["config"] and len(words) in (2, 3):
            found.append((words[1], "".join(words[2:]), {}))
        elif words[:1] in (["option"], ["list"]) and len(words) == 3 and found:
            found[-1][2].setdefault(words[1], []).append(words[2])
        elif words and words[0] not in ("package", "option"):
            raise ImportProblem(f"line {number} is not of UCI's form (config, option or list); correct it")
    return found


def _is_on(options: dict[str, list[str]], key: str, default: bool) -> bool:
    return _BOOLEANS.get(options.get(key, [""])[-1], default)


def _process(name: str, options: dict[str, list[str]], networks: list[dict[str, list[str]]], file: Path) -> Process:
    joined = [
        *options.get("join", []),
        *(one["id"][-1] for one in networks if "id" in one and _is_on(one, "enabled", True)),
    ]
    # ZeroTier allows addresses and routes where nothing is said.
    remarks = [TOOK.format(network=word.lower()) for word in options.get("join", [])]
    for network in networks:
        if "id" in network and network["id"][-1] in joined and _is_on(network, "allow_managed", True):
            remarks.append(TOOK.format(network=network["id"][-1].lower()))
        for option in ("allow_global", "allow_default", "allow_dns"):
            if _is_on(network, option, False):
                remarks.append(
                    f"{option} of {network.get('id', ['a network'])[-1]} is not taken over; set address, transit and remote instead"
                )
    conf_file = next((options[key][-1] for key in ("local_conf_path", "local_conf") if options.get(key, [""])[-1]), None)
    conf = read_json(Path(conf_file)) if conf_file and Path(conf_file).exists() else {}
    if conf_file and not conf:
        remarks.append(f"{conf_file} is not on this router; import it there or copy it here")
    # OpenWrt writes the secret into its home at each start, also over the one of config_path.
    own = bool(options.get("secret", [""])[-1])
    return of_local_conf(
        conf,
        name,
        networks=tuple(word.lower() for word in joined),
        port=port_of(options.get("port", [""])[-1]),
        home=None if own else options.get("config_path", [""])[-1] or None,
        secret=f"option secret of config zerotier {name} in {file}" if own else "",
        disabled=not _is_on(options, "enabled", False),
        remarks=tuple(remarks),
    )
