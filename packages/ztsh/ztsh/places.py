"""Where things are on the box; each can be moved by the environment, for tests and for a chroot."""

from __future__ import annotations

import os
from pathlib import Path


def _place(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable, default))


def definitions() -> Path:
    """Directory of the installed interface definitions (``*.xml``)."""
    return _place("ZTSH_DEFINITIONS", "/usr/share/zerotier-multi/interface-definitions")


def conf_scripts() -> Path:
    """Directory of the conf mode scripts: what ``${vyos_conf_scripts_dir}`` stands for."""
    return _place("ZTSH_CONF_SCRIPTS", "/usr/libexec/vyos/conf_mode")


def validators() -> Path:
    """Directory of external validators."""
    return _place("ZTSH_VALIDATORS", "/usr/libexec/vyos/validators")


def boot_file() -> Path:
    """The saved configuration."""
    return _place("ZTSH_CONFIG", "/config") / "config.boot"


def run_dir() -> Path:
    """Directory of the running configuration and the commit lock."""
    return _place("ZTSH_RUN", "/run/ztsh")
