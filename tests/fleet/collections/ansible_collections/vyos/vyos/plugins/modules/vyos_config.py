#!/usr/bin/python3
"""Stands in for the module of this name: the same arguments and results, by ztsh on a router of the lab.

Like vyos.vyos 4.1 it leaves out ``set`` lines that run already, unless ``match`` is ``none``, reports a change whenever
there is a line to send, and with ``save``, also without lines, saves what runs and is not saved.
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
    end = "compare" if module.check_mode else f"commit comment '{module.params['comment']}'"
    shown = script(module, *lines, end) if lines else ""
    unsaved = module.params["save"] and not script(module, "compare saved").startswith("No changes")
    if unsaved and not module.check_mode:
        script(module, "save")
    module.exit_json(changed=bool(lines) or unsaved, commands=lines, diff={"prepared": shown})


def script(module: AnsibleModule, *lines: str) -> str:
    """What conf mode answers."""
    return str(module.run_command(["ztsh", "script", "-"], data="\n".join([*lines, "exit discard"]) + "\n", check_rc=True)[1])


if __name__ == "__main__":
    main()
