#!/usr/bin/python3
"""Stands in for the module of this name: the same arguments and results, by ztsh on a router of the lab.

Like vyos.vyos 4.1 it leaves out ``set`` lines that run already, unless ``match`` is ``none``, and reports a change whenever
there is a line to send.
"""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

SPEC = {
    "lines": {"type": "list", "elements": "str"},
    "match": {"default": "line", "choices": ["line", "none"]},
    "comment": {"default": "configured by vyos_config"},
    "config": {},
    "save": {"type": "bool", "default": False},
}


def main() -> None:
    """What Ansible runs."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    running = [line.replace("'", "") for line in (module.params["config"] or "").splitlines()]
    wanted = module.params["lines"]
    lines = [line for line in wanted if module.params["match"] == "none" or line.replace("'", "") not in running]
    end = ["compare"] if module.check_mode else [f"commit comment '{module.params['comment']}'"]
    end += ["save"] if module.params["save"] and not module.check_mode else []
    script = "\n".join([*lines, *end, "exit discard"]) + "\n"
    shown = module.run_command(["ztsh", "script", "-"], data=script, check_rc=True)[1] if lines else ""
    module.exit_json(changed=bool(lines), commands=lines, diff={"prepared": shown})


if __name__ == "__main__":
    main()
