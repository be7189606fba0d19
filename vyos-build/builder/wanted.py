"""The packages that a vyos-build tree asks for, read from the tree itself."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from builder.branches import BRANCHES
from builder.errors import BuildError

_ARCH = "amd64"


@dataclass(frozen=True)
class Wanted:
    """What an image is to have, each package with the file that asks for it; and the kernel's package."""

    packages: dict[str, str]
    kernel: str


def read_wanted(tree: Path, development: bool) -> Wanted:
    """What the tree asks for in an image of no flavor but ours; raises :class:`BuildError`."""
    path = tree / "data/defaults.toml"
    build_type = "development" if development else "release"
    try:
        defaults = tomllib.loads(path.read_text())
        found: dict[str, str] = {}
        for list_file in sorted((tree / "data/live-build-config/package-lists").glob("*.list.chroot")):
            names = [line.strip() for line in list_file.read_text().splitlines()]
            found.update({name: list_file.name for name in names if re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name)})
        files = (path, tree / f"data/architectures/{_ARCH}.toml", tree / f"data/build-types/{build_type}.toml")
        for path in files:
            if path.exists():
                names = tomllib.loads(path.read_text()).get("packages", [])
                found.update({name: f"{path.parent.name}/{path.name}" for name in names})
        path = files[0]
        if "kernel_flavor" not in defaults and files[1].exists():  # as in the trees of sagitta and circinus
            path, defaults = files[1], {**tomllib.loads(files[1].read_text()), **defaults}
        kernel = f"linux-image-{defaults['kernel_version']}-{defaults['kernel_flavor']}"
    except (OSError, KeyError, ValueError) as error:
        raise BuildError(f"{path} cannot be used ({error}); give a vyos-build work tree in VYOS_BUILD") from None
    if not found:
        raise BuildError(f"{tree} has no lists of packages; give a vyos-build work tree in VYOS_BUILD")
    return Wanted(found, kernel)


def branch_of(tree: Path) -> str:
    """Our name for the branch that a vyos-build tree is of; raises :class:`BuildError`."""
    path = tree / "data/defaults.toml"
    try:
        said = tomllib.loads(path.read_text())["vyos_branch"]
    except (OSError, KeyError, ValueError) as error:
        raise BuildError(f"{path} cannot be used ({error}); give a vyos-build work tree in VYOS_BUILD") from None
    for branch in BRANCHES.values():
        if said in branch.known_as:
            return branch.name
    raise BuildError(f"{tree} is vyos-build for {said}, which is none of {', '.join(BRANCHES)}; check out one of these")


def sources_of(tree: Path, package: str) -> list[str]:
    """Where vyos-build's own recipes take a package's source from, as far as the recipe's names tell."""
    found: list[str] = []
    for recipe in sorted((tree / "scripts/package-build").glob("*/package.toml")):
        try:
            entries = tomllib.loads(recipe.read_text())["packages"]
            named = [(entry["name"], entry.get("scm_url", "")) for entry in entries]
        except (ValueError, KeyError, TypeError):
            continue  # only a hint; a recipe in another form gives none
        found += [url for name, url in named if url and _akin(package, name, recipe.parent.name)]
    return list(dict.fromkeys(found))


def _akin(package: str, name: str, recipe: str) -> bool:
    stem = name.replace("_", "-")
    core = re.sub(r"^(?:python3-py|python3-|vyos-)|(?:-client|-server)$", "", package)
    return stem in (package, core) or (core == recipe == stem)
