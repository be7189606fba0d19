"""Debian packages with little in them."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_deb(
    into: Path, package: str, version: str, architecture: str = "amd64", fields: str = "", file: str = "", preinst: str = ""
) -> Path:
    """A package without files, or with one; ``fields`` are further lines of its control file."""
    tree = into / f".{package}"
    (tree / "DEBIAN").mkdir(parents=True, exist_ok=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {package}\nVersion: {version}\nArchitecture: {architecture}\n"
        f"Maintainer: Test <test@example.com>\n{fields}Description: test\n"
    )
    if preinst:
        (tree / "DEBIAN/preinst").write_text(f"#!/bin/sh\n{preinst}\n")
        (tree / "DEBIAN/preinst").chmod(0o755)
    if file:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / file).write_text(package)
    path = into / f"{package}_{version}_{architecture}.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(tree), str(path)], check=True, capture_output=True)
    return path
