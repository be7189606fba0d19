"""Where things are on the box; each can be moved by the environment, for tests and for a chroot."""

from __future__ import annotations

import os
from pathlib import Path


def _place(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable, default))


def definitions() -> Path:
    """Directory of the installed interface definitions (``*.xml``)."""
    return _place("ZTSH_DEFINITIONS", "/usr/share/zerotier-multi/interface-definitions")


def op_definitions() -> list[Path]:
    """Directories of the installed op mode definitions."""
    chosen = os.environ.get("ZTSH_OP_DEFINITIONS")
    if chosen:
        return [Path(part) for part in chosen.split(":")]
    return [Path("/usr/share/ztsh/op-mode-definitions"), Path("/usr/share/zerotier-multi/op-mode-definitions")]


def program() -> Path:
    """This program, for the shells that it starts."""
    return _place("ZTSH_PROGRAM", "/usr/bin/ztsh")


def conf_scripts() -> Path:
    """Directory of the conf mode scripts: the value of ``${vyos_conf_scripts_dir}``."""
    return _place("ZTSH_CONF_SCRIPTS", "/usr/libexec/vyos/conf_mode")


def op_scripts() -> Path:
    """Directory of the op mode scripts: the value of ``${vyos_op_scripts_dir}``."""
    return _place("ZTSH_OP_SCRIPTS", "/usr/libexec/vyos/op_mode")


def completion_scripts() -> Path:
    """Directory of completion scripts: the value of ``${vyos_completion_dir}``."""
    return _place("ZTSH_COMPLETION", "/usr/libexec/vyos/completion")


def validators() -> Path:
    """Directory of external validators."""
    return _place("ZTSH_VALIDATORS", "/usr/libexec/vyos/validators")


def config_dir() -> Path:
    """Directory of the saved configuration and of the archive of commits."""
    return _place("ZTSH_CONFIG", "/config")


def boot_file() -> Path:
    """The saved configuration."""
    return config_dir() / "config.boot"


def archive() -> Path:
    """Directory of the commits, one file each."""
    return config_dir() / "archive"


def run_dir() -> Path:
    """Directory of the running configuration and the commit lock."""
    return _place("ZTSH_RUN", "/run/ztsh")


def active_file() -> Path:
    """The running configuration, in the form of config.boot."""
    return run_dir() / "active.boot"


def public_file() -> Path:
    """The running configuration without its secrets, for users who may not configure."""
    return run_dir() / "active.public"


def boot_report() -> Path:
    """What could not be applied at boot, a sentence per line; empty when all could."""
    return run_dir() / "boot.report"


def sessions() -> Path:
    """Directory of the command wrapper's sessions."""
    return run_dir() / "sessions"
