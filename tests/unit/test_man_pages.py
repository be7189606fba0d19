"""The manual pages have the options of their programs, and no others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT.glob("packages/*/man/*.rst"))
OPTION = re.compile(r"(?<![\w-])(?:--[a-z][a-z-]*|-[a-zA-Z](?![a-z]))")


def page(name: str) -> str:
    """The source of a page."""
    return next(path for path in PAGES if path.name == f"{name}.rst").read_text()


def described(text: str) -> set[str]:
    """Options that the section OPTIONS explains."""
    section = text.split("OPTIONS\n=======\n")[1].split("\n====")[0]
    return {option for line in section.splitlines() if line.startswith("**-") for option in OPTION.findall(line.replace("*", " "))}


def said(*command: str) -> str:
    """What a program of the tree prints for ``--help``."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/python:{ROOT}/packages/ztsh"}
    return subprocess.run([*command, "--help"], env=environment, capture_output=True, text=True, check=True).stdout


def of_ztnode() -> str:
    """The text is one string literal of the program."""
    usage = (ROOT / "packages/ztnode/src/main.c").read_text().split("int usage(")[1].split(");\n")[0]
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', usage)).replace("\\n", "\n")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_sound(path: Path) -> None:
    done = subprocess.run(["rst2man", "--halt=2", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name, section = path.stem.split(".")
    assert re.search(rf'^\.TH "?{name.upper()}"? "?{section}"? ', done.stdout.replace("\\-", "-"), re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "help_text"),
    [
        ("ztnode.8", of_ztnode),
        ("ztsh.1", lambda: said(sys.executable, "-m", "ztsh")),
        ("zerotier-pathd.8", lambda: said(sys.executable, "-m", "zerotier_multi.pathd")),
    ],
)
def test_options_are_those_of_the_program(name: str, help_text: object) -> None:
    assert described(page(name)) == set(OPTION.findall(help_text().replace("-pPORT", "-p")))  # type: ignore[operator]


def test_the_verbs_of_ztsh_are_in_its_page() -> None:
    verbs = set(re.findall(r"ztsh ([a-z]+)", said(sys.executable, "-m", "ztsh"))) - {"show"}
    assert verbs == {"script", "apply", "cfg", "boot"}
    assert all(f"**{verb}**" in page("ztsh.1").split("OPTIONS\n")[1] for verb in verbs)
