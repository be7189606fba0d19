"""The flavor: the one file from which VyOS's own program makes the image."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from builder import edits
from builder.edits import Edit
from builder.errors import BuildError
from builder.places import FLAVOR

NAME = "zerotier-multi"

# Where VyOS keeps its default configuration, newest place first; both below a vyos-build tree.
_DEFAULT_CONFIGS = (
    "build/vyos-1x/data/config.boot.default",
    "data/live-build-config/includes.chroot/opt/vyatta/etc/config.boot.default",
)
_HASHING = """\\g<0>
    ip {
        multipath {
            layer4-hashing
        }
    }
    ipv6 {
        multipath {
            layer4-hashing
        }
    }"""


def default_config(tree: Path) -> str:
    """VyOS's own default configuration with layer-4 hashing in it, so that a new router shows what it does."""
    for place in _DEFAULT_CONFIGS:
        if (tree / place).is_file():
            edit = Edit(place, "layer-4 hashing goes", r'^    host-name "?vyos"?$', _HASHING)
            return edits.apply(edit, (tree / place).read_text())
    raise BuildError(f"{tree} has no default configuration; give a complete vyos-build tree in VYOS_BUILD")


def compose(packages: Iterable[str], config: str, source: Path = FLAVOR, kernel: str = "") -> str:
    """The flavor as TOML: its head, our packages, every file of ``includes.chroot``, the default configuration.

    ``kernel`` names the kernel's package where it is not the one of vyos-build.
    """
    root = source / "includes.chroot"
    parts = [
        (source / "flavor.toml").read_text(),
        f"packages = {json.dumps(sorted(packages))}\n",
        f"default_config = {_string(config)}\n",
    ]
    if kernel:
        version, _, kind = kernel.removeprefix("linux-image-").rpartition("-")
        parts.append(f"kernel_version = {_string(version)}\nkernel_flavor = {_string(kind)}\n")
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        place = path.relative_to(root).as_posix()
        parts.append(f"\n[[includes_chroot]]\npath = {_string(place)}\ndata = {_string(path.read_text())}\n")
    return "".join(parts)


def _string(text: str) -> str:
    # JSON's strings are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text).replace("\x7f", "\\u007f")
