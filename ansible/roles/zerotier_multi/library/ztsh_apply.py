#!/usr/bin/python3
"""Ansible's way to ``ztsh apply``."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: ztsh_apply
short_description: Bring the configuration of a router with ztsh to what lines say
description:
  - Runs C(ztsh apply). The lines change a copy of the running configuration; the difference is one commit that is saved.
  - The journal of the router shows the arguments of modules, so no secret belongs in the lines.
options:
  lines:
    description: Lines with C(set), C(delete) or C(comment).
    type: list
    elements: str
    required: true
author: The zerotier-multi project
"""

EXAMPLES = """
- name: Two instances
  ztsh_apply:
    lines:
      - set interfaces zerotier zt0 instances 2
"""

RETURN = """
commands:
  description: The difference.
  returned: success
  type: list
  sample: ["set interfaces zerotier zt0 instances '2'"]
"""


def main() -> None:
    """What Ansible runs."""
    spec = {"lines": {"type": "list", "elements": "str", "required": True}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    command = ["ztsh", "apply", *(["--check"] if module.check_mode else []), "-"]
    status, output, error = module.run_command(command, data="".join(f"{line}\n" for line in module.params["lines"]))
    if status not in ((0, 2) if module.check_mode else (0,)):
        module.fail_json(msg=error.strip().removeprefix("ztsh: ") or f"ztsh apply ended with {status}", rc=status)
    warnings = error.splitlines()
    module.exit_json(changed=bool(output), commands=output.splitlines(), diff={"prepared": output}, warnings=warnings)


if __name__ == "__main__":
    main()
