#!/usr/bin/env python3
"""Conf mode of ``interfaces zerotier``: VyOS's calling convention; all decisions are the library's."""

import os
import sys

from vyos import ConfigError
from vyos.base import Warning
from vyos.config import Config
from zerotier_multi import commit, dependents

base = ['interfaces', 'zerotier']


def get_config(config=None):
    conf = config if config else Config()
    bundles = conf.get_config_dict(base, get_first_key=True, no_tag_node_value_mangle=True, with_recursive_defaults=True)
    multipath = {family: conf.get_config_dict(['system', family, 'multipath'], get_first_key=True) for family in ('ip', 'ipv6')}
    layer4 = [family for family, tree in multipath.items() if 'layer4-hashing' in tree]
    elsewhere = {
        path: conf.get_config_dict(list(path), get_first_key=True, no_tag_node_value_mangle=True) for path in dependents.SECTIONS
    }
    return {'ifname': os.environ['VYOS_TAGNODE_VALUE'], 'bundles': bundles, 'layer4': layer4, 'elsewhere': elsewhere}


def verify(zerotier):
    try:
        zerotier['change'] = commit.check(zerotier['ifname'], zerotier['bundles'], zerotier['layer4'], zerotier['elsewhere'])
    except commit.ConfigProblems as problems:
        raise ConfigError(str(problems))
    for text in zerotier['change'].warnings:
        Warning(text)


def generate(zerotier):
    try:
        commit.generate(zerotier['change'])
    except commit.CommitError as error:
        raise ConfigError(str(error))


def apply(zerotier):
    try:
        for text in commit.apply(zerotier['change']):
            Warning(text)
    except commit.CommitError as error:
        raise ConfigError(str(error))


if __name__ == '__main__':
    try:
        c = get_config()
        verify(c)
        generate(c)
        apply(c)
    except ConfigError as e:
        print(e)
        sys.exit(1)
