"""``python3 -m zerotier_multi.controller ztN``: one attempt for one bundle; prints what has come of it as JSON."""

from __future__ import annotations

import json
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zerotier_multi import names
from zerotier_multi.controller import settings
from zerotier_multi.controller.client import Client, ControllerError
from zerotier_multi.controller.dialects import DIALECTS
from zerotier_multi.controller.work import once_each, settle, tasks, whole_fault
from zerotier_multi.homes import own_identity
from zerotier_multi.plan import Plan
from zerotier_multi.plans import read_plan


def attempt(plan: Plan, key: str, router: str) -> dict[str, Any]:
    """Go through all members; what is wrong with the controller as a whole ends it."""
    given = plan.controller
    if given is None:
        return {"fault": None, "members": []}
    nodes = {i.number: identity.address for i in plan.instances if (identity := own_identity(Path(i.home)))}
    dialect, done = DIALECTS[given.kind], []
    fault = None if len(nodes) == len(plan.instances) else "is asked again when all instances have an identity"
    try:
        client = Client(settings.place(given.kind, given.url), dialect.header(key), given.ca_certificate, given.insecure)
        try:
            ask = once_each(client.ask)
            for task in tasks(plan, nodes, router):
                done.append(settle(task, dialect, ask))
            fault = whole_fault(done) or fault
        finally:
            client.close()
    except ControllerError as error:
        fault = str(error)
    return {"fault": fault, "members": [asdict(one) for one in done]}


def main(bundle: str) -> None:
    """Do it for a bundle; the key is read from its file, so that it is in no argument and no environment."""
    try:
        plan = read_plan(bundle)
        key = names.controller_key(bundle).read_text("ascii").strip()
    except (OSError, ValueError):
        fault = f"has no key on this router; commit any change of interfaces zerotier {bundle}, or restart the router"
        print(json.dumps({"fault": fault, "members": []}))
        return
    print(json.dumps(attempt(plan, key, socket.gethostname().partition(".")[0])))


if __name__ == "__main__":
    main(sys.argv[1])
