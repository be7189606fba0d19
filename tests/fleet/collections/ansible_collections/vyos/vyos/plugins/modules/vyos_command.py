#!/usr/bin/python3
"""Stands in for the module of this name: the same arguments and results, by ztsh on a router of the lab."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

# VyOS's programs that have another name with ztsh.
OTHERS = {"sudo vyos-config-to-commands /config/config.boot": "cat /config/config.boot | ztsh filter commands"}


def main() -> None:
    """What Ansible runs."""
    module = AnsibleModule({"commands": {"type": "list", "elements": "raw", "required": True}}, supports_check_mode=True)
    commands = [OTHERS.get(command, command) for command in module.params["commands"]]
    answers = [module.run_command(["ztsh", "-c", command], check_rc=True)[1].strip() for command in commands]
    module.exit_json(changed=False, stdout=answers, stdout_lines=[answer.splitlines() for answer in answers])


if __name__ == "__main__":
    main()
