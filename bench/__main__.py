"""``python3 -m bench VERB …``: one entry point of everything that is run by hand; each verb is a module with ``main``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

# verb -> (module with main(arguments) -> exit status, what it does)
VERBS = {
    "run": ("bench.run", "measure all scenarios, or some, into build/bench/NAME"),
    "needed": ("bench.needed", "name the programs of others that a run needs"),
    "remote": ("bench.remote.__main__", "measure the link between two real boxes, by ssh"),
    "report": ("bench.report.command", "write the HTML page, summary and plot of a run"),
    "engines": ("bench.engines", "one instance of each engine out of a run, as a table"),
    "compare": ("bench.compare", "compare two runs, row by row, with significance"),
}


def usage() -> str:
    """The verbs, one a line."""
    width = max(map(len, VERBS))
    return "usage: python3 -m bench VERB ...\n\n" + "\n".join(f"  {verb:{width}}  {what}" for verb, (_, what) in VERBS.items())


def main(arguments: Sequence[str]) -> int:
    """Run a verb; returns its exit status."""
    if not arguments or arguments[0] not in VERBS:
        print(usage(), file=sys.stdout if arguments[:1] in (["-h"], ["--help"]) else sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    module, _ = VERBS[arguments[0]]
    return importlib.import_module(module).main(list(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
