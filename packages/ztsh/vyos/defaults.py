"""Directories under the names that VyOS's scripts use."""

directories = {
    'conf_mode': '/usr/libexec/vyos/conf_mode',
    'op_mode': '/usr/libexec/vyos/op_mode',
    'validators': '/usr/libexec/vyos/validators',
    'data': '/usr/share/vyos',
}
