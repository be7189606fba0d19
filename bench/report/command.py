"""``python3 -m bench report RUN``: writes the report of a run into its directory."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.report import build, published, summary
from bench.results import ResultsError, Run, load, save

DOCS = Path("docs")
RESULTS, DATA, PLOT = "benchmark-results.md", "benchmark-results.json", "images/benchmark.svg"
PICTURES = {"images/benchmark-phone.png": (390, 1600), "images/benchmark-desktop.png": (1280, 1600)}  # width, height


def write(path: Path, text: str) -> Path:
    """Write a file; a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text)
    os.replace(partial, path)
    return path


def picture(page: Path, path: Path, size: tuple[int, int]) -> Path:
    """A picture of the top of a page, as Chromium shows it."""
    command = [
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--window-size={size[0]},{size[1]}",
    ]
    subprocess.run(
        [*command, f"--screenshot={path.absolute()}", page.absolute().as_uri()], check=True, capture_output=True, timeout=120
    )
    return path


def main(arguments: Sequence[str]) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python3 -m bench report", description="The report of a run: page, summary, plot.")
    parser.add_argument("run", type=Path, help="a run's directory, or its results.json")
    parser.add_argument("--to", type=Path, help="directory to write to (default: report/ beside results.json)")
    docs = f"also put its scenarios into docs/{RESULTS}, with the plot and, with chromium, pictures"
    parser.add_argument("--docs", action="store_true", help=docs)
    options = parser.parse_args(arguments)
    try:
        run = load(options.run)
        earlier = load(DOCS / DATA) if options.docs and (DOCS / DATA).exists() else None
    except ResultsError as error:
        print(f"bench report: {error}", file=sys.stderr)
        return 1
    if options.docs and build.is_synthetic(run):
        print(
            f"bench report: {options.run} was not measured, so the documentation does not get it; leave out --docs", file=sys.stderr
        )
        return 1
    to = options.to or (options.run if options.run.is_dir() else options.run.parent) / "report"
    plot = summary.plot(run)
    print(write(to / "index.html", build.page(run)))
    print(write(to / "summary.md", summary.markdown(run, "scaling.svg" if plot else None)))
    if plot:
        print(write(to / "scaling.svg", plot))
    if options.docs:
        _publish(published.merged(run, earlier), to)
    return 0


def _publish(run: Run, to: Path) -> None:
    """Write what the documentation has of a run."""
    plot, slim = summary.plot(run), published.slim(run)
    print(write(DOCS / RESULTS, summary.markdown(slim, PLOT if plot else None)))
    save(slim, DOCS / DATA)
    print(DOCS / DATA)
    if plot:
        print(write(DOCS / PLOT, plot))
    if shutil.which("chromium"):
        page = write(to / "published.html", build.page(run))
        for name, size in PICTURES.items():
            print(picture(page, DOCS / name, size))
