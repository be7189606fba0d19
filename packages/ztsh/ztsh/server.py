"""The authority's end of a request: read, checked in form, done, answered."""

from __future__ import annotations

import json
import sys

from ztsh import places
from ztsh.access import BUSY, REFUSED
from ztsh.authority import perform
from ztsh.changes import changes_from
from ztsh.errors import Busy, SessionError
from ztsh.schema import load_schema
from ztsh.words import printable
from ztsh.xmlfile import SchemaError


def serve() -> int:
    """What the program of :mod:`ztsh.access` does: one request on standard input, the answer on standard output."""
    try:
        request = json.load(sys.stdin)
        schema = load_schema(places.definitions())
        sys.stdout.write(perform(schema, request["operation"], changes_from(request["changes"]), request["details"]))
    except (SessionError, SchemaError) as error:
        print(printable(str(error), keep="\n"), file=sys.stderr)  # words of the request are in it
        return BUSY if isinstance(error, Busy) else REFUSED
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        print(f"invalid request ({type(error).__name__})", file=sys.stderr)
        return 2
    return 0
