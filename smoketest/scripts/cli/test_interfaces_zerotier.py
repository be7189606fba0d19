#!/usr/bin/env python3
"""Smoketest of ``interfaces zerotier``: what a commit makes of the kernel, the processes and their API.

One router alone: the other one, R2, is known by made-up identities and never answers, so the probing of paths
is off and a path counts as soon as its device carries. It needs an address on the underlay. base_zerotier_test.py says
what of the router it touches.
"""

import base64
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import time
from ipaddress import ip_address

from base_zerotier_test import ZeroTierSmoketest, base_path, homes, ip, main, plans, root

from vyos.configsession import ConfigSessionError

zt254, zt255 = base_path + ['zt254'], base_path + ['zt255']
network = '8056c2e21c000001'
PORT, OTHER_PORT = 9993 + 32 * 254, 9993 + 32 * 255  # of instance 1 of each
engines = {'zerotier-one': (1, 14), 'ztnode': (1, 8)}  # and the oldest version of each that will do
hash_policy = '/proc/sys/net/ipv4/fib_multipath_hash_policy'
hash_policy6 = '/proc/sys/net/ipv6/fib_multipath_hash_policy'

PROTO = '122'
MTU = 1394
# Seconds that a state may take to come about; ZTM_PATIENCE stretches it on a slow machine
PATIENCE = 30.0 * float(os.environ.get('ZTM_PATIENCE', '1'))


def read(path):
    """Text of a file, or None where there is none."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def identity(number):
    """A public identity that has the right form and belongs to nobody."""
    return f'9e57{number:06x}:0:{hashlib.sha512(str(number).encode()).hexdigest()}'


def units(*properties):
    """Properties of the units of all instances that systemd has loaded: (bundle, instance) -> properties."""
    text = root('systemctl', 'show', '--property=' + ','.join(['Id', *properties]), 'zerotier-multi@*.service')
    found = {}
    for block in text.strip().split('\n\n'):
        values = dict(line.split('=', 1) for line in block.splitlines())
        match = re.fullmatch(r'zerotier-multi@(zt\d+)-(\d+)\.service', values.get('Id', ''))
        if match:
            found[match[1], int(match[2])] = values
    return found


def pids(bundle='zt254'):
    """The process of every running instance of a bundle."""
    return {
        k: int(values['MainPID'])
        for (name, k), values in sorted(units('MainPID', 'ActiveState').items())
        if name == bundle and values['ActiveState'] == 'active'
    }


def processes():
    """PIDs of all processes of our units, whoever started them."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        if re.search(r'zerotier-(multi|pathd)', read(f'/proc/{pid}/cgroup') or ''):
            found.append(int(pid))
    return found


def cpus(pid):
    """CPU lists that the threads of a process may run on."""
    texts = (read(f'/proc/{pid}/task/{task}/status') or '' for task in os.listdir(f'/proc/{pid}/task'))
    return {match[1] for text in texts if (match := re.search(r'Cpus_allowed_list:\t(\S+)', text))}


def udp_ports(wanted=None):
    """UDP ports that are bound, by one of the processes ``wanted`` or by anybody."""
    found = set()
    for line in root('ss', '-Hlunp').splitlines():
        if wanted is None or wanted & {int(pid) for pid in re.findall(r'pid=(\d+)', line)}:
            found.add(int(line.split()[3].rpartition(':')[2]))
    return found


def devices():
    """Our devices: name -> MTU."""
    return {link['ifname']: link['mtu'] for link in ip('link') if re.fullmatch(r'zt25[45](p\d+)?', link['ifname'])}


def members(bundle='zt254'):
    """Member devices of a bundle and their MTU."""
    return {name: mtu for name, mtu in devices().items() if name.startswith(f'{bundle}p')}


def clamping():
    """Rules that set the MSS of forwarded connections."""
    text = root('nft', 'list', 'table', 'inet', 'zerotier_multi', check=False)
    return [line.strip() for line in text.splitlines() if 'maxseg' in line]


def addresses(device):
    """Addresses of a device that are not link-local."""
    found = ip('addr', 'show', 'dev', device) if device in devices() else []
    return sorted(f'{a["local"]}/{a["prefixlen"]}' for link in found for a in link.get('addr_info', []) if a['scope'] != 'link')


def objects():
    """Next-hop objects and groups of ours: id -> object."""
    return {o['id']: o for o in ip('nexthop', 'show') if str(o.get('protocol')) == PROTO}


def nexthops(bundle='zt254', family=4):
    """Next hops of a bundle as (device, gateway)."""
    found = [o for o in objects().values() if re.fullmatch(rf'{bundle}p\d+', o.get('dev', ''))]
    return sorted((o['dev'], o['gateway']) for o in found if (':' in o['gateway']) == (family == 6))


def routes(family=4):
    """Our routes over groups: prefix -> route."""
    return {route['dst']: route for route in ip(f'-{family}', 'route', 'show', 'proto', PROTO) if 'nhid' in route}


def routes_for_frr(family=4):
    """Our routes over the device of a bundle, which only FRR looks at: (prefix, device, metric)."""
    found = ip(f'-{family}', 'route', 'show', 'proto', PROTO)
    return sorted((route['dst'], route['dev'], route['metric']) for route in found if 'nhid' not in route)


def members_of_route(prefix, family=4):
    """Devices of the group behind a route, in the group's order; None while there is no such route."""
    found = objects()
    group = found.get(routes(family).get(prefix, {}).get('nhid'), {}).get('group', [])
    return [found[member['id']]['dev'] for member in group] or None


def groups():
    """Ids of our groups."""
    return {number for number, found in objects().items() if 'group' in found}


def groups_in_use():
    """Ids of the groups that our routes use."""
    return {route['nhid'] for family in (4, 6) for route in routes(family).values()}


def group_of_route(prefix):
    """The group behind a route."""
    return objects().get(routes().get(prefix, {}).get('nhid'), {})


def resilience(prefix):
    """Buckets and idle timer of the group behind a route; None where it is no resilient one."""
    arguments = group_of_route(prefix).get('resilient_args')
    return arguments and (arguments['buckets'], arguments['idle_timer'])


def engine(pid):
    """Name of the program that a process runs."""
    return os.path.basename(root('readlink', f'/proc/{pid}/exe', check=False).strip())


def api(bundle, instance, path):
    """What the local API of an instance answers; None while it does not."""
    token = root('cat', f'{homes}/{bundle}/{instance}/authtoken.secret', check=False).strip()
    port = min(udp_ports({pids(bundle).get(instance, 0)}), default=0)
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=2)
    try:
        # The client closes, because a closing server would keep its port busy over a restart.
        connection.request('GET', path, headers={'X-ZT1-Auth': token, 'Connection': 'keep-alive'})
        answer = connection.getresponse()
        body = answer.read()
        return json.loads(body) if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def node(instance, bundle='zt254'):
    """Node address that an instance reports."""
    return (api(bundle, instance, '/status') or {}).get('address')


def joined(instance, bundle='zt254'):
    """Networks that an instance has joined: id -> device."""
    return {found['id']: found['portDeviceName'] for found in api(bundle, instance, '/network') or []}


def identities():
    """Public identities below the homes: directory -> text."""
    script = 'cd "$1" 2>/dev/null || exit 0; for f in */*/identity.public; do echo "$f $(cat "$f")"; done'
    return dict(line.split(' ', 1) for line in root('sh', '-c', script, 'sh', homes).splitlines() if ':' in line)


def published():
    """Plans in force, with a digest of each."""
    return root('sh', '-c', f'ls {plans}/*.json 2>/dev/null | xargs -r sha256sum')


def snapshot():
    """Everything of the router that a refused commit must leave as it is."""
    files = f'find {homes} /run/systemd/system/zerotier-multi@* -name "*.conf" -o -name planet -o -name devicemap'
    return {
        'processes': {name: values['MainPID'] for name, values in units('MainPID').items()},
        'devices': {link['ifname']: (link['ifindex'], link['mtu']) for link in ip('link')},
        'addresses': {device: addresses(device) for device in devices()},
        'next hops': objects(),
        'routes': {**routes(), **routes(6)},
        'hash policy': (read(hash_policy), read(hash_policy6)),
        'plans': published(),
        'files': root('sh', '-c', f'{files} 2>/dev/null | sort | xargs -r sha256sum'),
    }


def permanent_neighbours(device):
    """Addresses with a permanent neighbour entry on a device."""
    found = ip('neigh', 'show', 'dev', device, 'nud', 'permanent')
    return [entry['dst'] for entry in found if entry['state'] == ['PERMANENT']]


def installed_engines():
    """Which of the engines this router has; one that is too old counts as none."""
    path, found = '/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/sbin:/bin', []
    for name, oldest in engines.items():
        program = shutil.which(name, path=path)
        told = program and re.match(r'(\d+)\.(\d+)\.', root(program, '-v', check=False))
        if told and (int(told[1]), int(told[2])) >= oldest:
            found.append(name)
    return found


def kernel_has_resilient_groups():
    """Whether the kernel takes a resilient group.

    Asked with objects of no use; their ids are outside our range, and above those after which zebra counts on.
    """
    single, group = str(0x7B000001), str(0x7B000002)
    root('ip', 'nexthop', 'add', 'id', single, 'blackhole')
    try:
        root('ip', 'nexthop', 'add', 'id', group, 'group', single, 'type', 'resilient', 'buckets', '2')
    except OSError:
        return False
    finally:
        for number in (group, single):
            root('ip', 'nexthop', 'del', 'id', number, check=False)
    return True


class ZeroTierInterfaceTest(ZeroTierSmoketest):
    @classmethod
    def prepare(cls):
        cls.resilient = kernel_has_resilient_groups()
        cls.hash_before = read(hash_policy), read(hash_policy6)

    def tearDown(self):
        super().tearDown()
        before, mine = identities(), udp_ports(set(processes()))
        self.cli_delete(base_path)
        self.cli_commit()

        # Nothing is left but the identities
        self.eventually(processes, [])
        self.eventually(lambda: [k for k, v in units('ActiveState').items() if v['ActiveState'] != 'inactive'], [])
        self.eventually(devices, {})
        self.eventually(clamping, [])
        self.assertEqual(objects(), {})
        self.assertEqual({**routes(), **routes(6)}, {})
        self.assertEqual(routes_for_frr() + routes_for_frr(6), [])
        self.assertEqual(udp_ports() & mine, set())
        self.assertEqual(published(), '')
        self.assertEqual((read(hash_policy), read(hash_policy6)), self.hash_before)
        self.assertEqual(identities(), before)

    # -- helpers

    def eventually(self, look, wanted):
        """Look until the answer is the wanted one."""
        deadline = time.monotonic() + PATIENCE
        while (found := look()) != wanted:
            self.go_on()
            if time.monotonic() > deadline:
                self.assertEqual(found, wanted)
            time.sleep(0.1)

    def set_all(self, path, *lines):
        """Set several lines below a path."""
        for line in lines:
            self.cli_set(path + line.split())

    def replace(self, path, value):
        """Give a leaf with several values this one."""
        self.cli_delete(path)
        self.cli_set(path + [value])

    def example(self, instances, *lines):
        """Set the example of the manual for the first router of a pair."""
        self.set_all(
            zt254,
            f'instances {instances}',
            f'network-id {network}',
            'controller-free',
            'health-check disable',
            'transit prefix 198.18.14.0/27',
            'transit site 1',
            'address 198.18.55.1/32',
            'remote R2 prefix 198.18.55.2/32',
            *(f'remote R2 instance {k} identity {identity(k)}' for k in range(1, instances + 1)),
            *lines,
        )

    def second_bundle(self, *lines):
        """Set what a second bundle beside the example needs."""
        self.set_all(
            zt255,
            'network-id 8056c2e21c000002',
            'controller-free',
            'health-check disable',
            'transit prefix 198.18.15.0/30',
            'transit site 1',
            'remote R2 prefix 198.18.56.2/32',
            f'remote R2 instance 1 identity {identity(101)}',
            *lines,
        )

    def settled(self, numbers, prefix='198.18.55.2', family=4, bundle='zt254', paths=None):
        """Wait until these instances of a bundle run and carry a route, all or ``paths``, in their order."""
        names = [f'{bundle}p{k}' for k in numbers]
        self.eventually(lambda: list(pids(bundle)), list(numbers))
        self.eventually(lambda: sorted(members(bundle)), sorted(names))
        self.eventually(lambda: members_of_route(prefix, family), [f'{bundle}p{k}' for k in paths or numbers])
        self.eventually(lambda: groups() - groups_in_use(), set())

    def running_example(self, instances=2, *lines):
        """The example, committed and settled; returns its processes."""
        self.example(instances, *lines)
        self.cli_commit()
        self.settled(range(1, instances + 1))
        return pids()

    def refused(self, *sentences):
        """Commit, expect to be refused with these sentences, and see that nothing has changed."""
        before = snapshot()
        with self.assertRaises(ConfigSessionError) as refusal:
            self.cli_commit()
        # Lines may be broken anywhere, so blanks do not count
        told = ''.join(str(refusal.exception).split())
        for sentence in sentences:
            self.assertIn(''.join(sentence.split()), told)
        self.assertNotIn('Traceback', told)
        self.assertEqual(snapshot(), before)

    def refused_at_set(self, *path):
        """Set a line that the interface definition does not admit."""
        with self.assertRaises(ConfigSessionError):
            self.cli_set(base_path + list(path))

    # -- the example

    def assert_example(self, instances):
        """N processes, N devices, N next hops, one group in order, one route; and the processes agree."""
        numbers = range(1, instances + 1)
        self.settled(numbers)
        self.assertEqual(addresses('zt254'), ['198.18.55.1/32'])
        self.assertEqual(members(), {f'zt254p{k}': MTU for k in numbers})
        for k in numbers:
            self.assertEqual(addresses(f'zt254p{k}'), [f'198.18.14.{4 * k - 3}/30'])
            self.assertEqual(read(f'/proc/sys/net/ipv4/conf/zt254p{k}/arp_ignore'), '2')
            self.assertEqual(read(f'/proc/sys/net/ipv4/conf/zt254p{k}/arp_announce'), '2')
            # zerotier-one takes its device down and up while it starts; the daemon then sets the neighbour again
            self.eventually(lambda i=k: f'198.18.14.{4 * i - 2}' in permanent_neighbours(f'zt254p{i}'), True)
        self.assertEqual(nexthops(), sorted((f'zt254p{k}', f'198.18.14.{4 * k - 2}') for k in numbers))

        self.assertEqual(list(routes()), ['198.18.55.2'])
        self.assertEqual(routes()['198.18.55.2']['prefsrc'], '198.18.55.1')
        self.assertEqual(routes_for_frr(), [('198.18.55.2', 'zt254', 16777215)])
        group = group_of_route('198.18.55.2')
        self.assertEqual(len(group['group']), instances)
        self.assertEqual([member.get('weight', 1) for member in group['group']], [1] * instances)
        if self.resilient:
            self.assertEqual(group['type'], 'resilient')
            self.assertEqual(resilience('198.18.55.2'), (128, 10))
        expected = ('1', '1') if instances > 1 else self.hash_before
        self.assertEqual((read(hash_policy), read(hash_policy6)), expected)

        properties = units('NRestarts', 'NoNewPrivileges', 'Restart')
        for k, pid in pids().items():
            self.assertEqual(properties['zt254', k]['NRestarts'], '0')
            self.assertEqual(properties['zt254', k]['NoNewPrivileges'], 'yes')
            self.assertEqual(properties['zt254', k]['Restart'], 'always')
            self.eventually(lambda p=pid: udp_ports({p}), {PORT - 1 + k})
            self.eventually(lambda i=k: node(i), identities()[f'zt254/{k}/identity.public'][:10])
            self.eventually(lambda i=k: joined(i), {network: f'zt254p{k}'})
        self.assertEqual(len({node(k) for k in numbers}), instances)

    def test_01_zerotier_one_instance(self):
        self.example(1)
        self.cli_commit()
        self.assert_example(1)

    def test_02_zerotier_two_instances(self):
        self.example(2)
        self.cli_commit()
        self.assert_example(2)

    def test_03_zerotier_four_instances(self):
        self.example(4)
        self.cli_commit()
        self.assert_example(4)

    def test_04_zerotier_eight_instances(self):
        self.example(8)
        self.cli_commit()
        self.assert_example(8)

    def test_05_zerotier_instances_auto(self):
        # One per performance core; however many these are, they are numbered from 1
        self.example(1)
        self.cli_set(zt254 + ['instances', 'auto'])
        self.replace(zt254 + ['transit', 'prefix'], '198.18.14.0/25')  # has room for the most instances that there are
        self.cli_commit()
        self.eventually(lambda: members_of_route('198.18.55.2'), ['zt254p1'])
        running = list(pids())
        self.assertEqual(running, list(range(1, len(running) + 1)))
        self.assertLessEqual(len(running), os.cpu_count())
        self.eventually(lambda: sorted(members()), sorted(f'zt254p{k}' for k in running))

    # -- changes

    def test_10_zerotier_fewer_and_more_instances(self):
        before = self.running_example(4)
        nodes = {k: node(k) for k in before}

        self.cli_set(zt254 + ['instances', '2'])
        self.cli_commit()
        self.settled([1, 2])
        self.assertEqual(pids(), {k: before[k] for k in (1, 2)})
        self.assertEqual([name for name, _gateway in nexthops()], ['zt254p1', 'zt254p2'])
        for pid in (before[3], before[4]):
            self.assertFalse(os.path.exists(f'/proc/{pid}'))

        self.cli_set(zt254 + ['instances', '4'])
        self.cli_commit()
        self.settled([1, 2, 3, 4])
        after = pids()
        self.assertEqual([after[k] for k in (1, 2)], [before[k] for k in (1, 2)])
        for k in after:
            self.eventually(lambda i=k: node(i), nodes[k])

    def test_11_zerotier_unchanged_commit(self):
        # Nothing on the router depends on a default that is written out, or on times of a probing that is off
        self.running_example(2)
        before = snapshot()
        self.set_all(zt254, 'balance hash-policy layer4', 'mtu auto')
        self.cli_commit()
        self.assertEqual(snapshot(), before)

        self.set_all(zt254, 'health-check interval 500', 'health-check multiplier 5')
        self.cli_commit()
        after = snapshot()
        for name in ('processes', 'devices', 'addresses', 'next hops', 'routes', 'hash policy', 'files'):
            self.assertEqual(after[name], before[name])

    def test_12_zerotier_ports(self):
        before = self.running_example(2, 'primary port 12000')
        for k, pid in before.items():
            self.eventually(lambda p=pid: udp_ports({p}), {11999 + k})

        # A port of its own restarts that instance alone
        self.cli_set(zt254 + ['instance', '2', 'port', '12100'])
        self.cli_commit()
        self.eventually(lambda: udp_ports({pids().get(2, 0)}), {12100})
        self.settled([1, 2])
        self.assertEqual(pids()[1], before[1])
        self.assertNotEqual(pids()[2], before[2])
        self.eventually(lambda: udp_ports() & {12000, 12001, 12100}, {12000, 12100})

        self.refused_at_set('zt254', 'primary', 'port', '65536')
        self.cli_set(zt254 + ['primary', 'port', '65535'])
        self.cli_delete(zt254 + ['instance'])
        self.refused('instance 2 would need port 65536, above 65535; set 65534 or lower')
        self.cli_delete(zt254 + ['primary'])
        self.cli_commit()
        self.eventually(lambda: {k: udp_ports({pid}) for k, pid in pids().items()}, {1: {PORT}, 2: {PORT + 1}})
        self.settled([1, 2])

    def test_13_zerotier_cpu_affinity(self):
        everywhere = cpus(os.getpid())
        some = sorted(os.sched_getaffinity(0))
        first, last = str(some[0]), str(some[-1])

        # By default every instance has a CPU of its own, as long as there are enough
        before = self.running_example(2)
        found = {k: cpus(pid) for k, pid in before.items()}
        for k, lists in found.items():
            self.assertEqual(len(lists), 1)
            self.assertTrue(min(lists).isdigit())
            properties = units('AllowedCPUs', 'CPUAffinity')['zt254', k]
            self.assertEqual({properties['AllowedCPUs'], properties['CPUAffinity']}, lists)
        if len(some) > 1:
            self.assertNotEqual(found[1], found[2])

        # A list is taken in turn, and running processes move
        self.cli_set(zt254 + ['cpu', 'affinity', ','.join(dict.fromkeys((first, last)))])
        self.cli_commit()
        self.eventually(lambda: {k: cpus(pid) for k, pid in pids().items()}, {1: {first}, 2: {last}})
        self.assertEqual(pids(), before)
        self.assertEqual(units('AllowedCPUs')['zt254', 2]['AllowedCPUs'], last)

        self.cli_set(zt254 + ['cpu', 'affinity', 'none'])
        self.cli_commit()
        self.eventually(lambda: {k: cpus(pid) for k, pid in pids().items()}, {1: everywhere, 2: everywhere})
        self.assertEqual(pids(), before)
        self.assertEqual(units('CPUAffinity')['zt254', 1]['CPUAffinity'], '')

        # One instance alone
        self.cli_set(zt254 + ['instance', '1', 'cpu', last])
        self.cli_commit()
        self.eventually(lambda: {k: cpus(pid) for k, pid in pids().items()}, {1: {last}, 2: everywhere})
        self.assertEqual(pids(), before)

        self.cli_set(zt254 + ['cpu', 'affinity', '9999'])
        self.refused('cpu affinity 9999: this router has no CPU 9999; its CPUs are')
        self.cli_set(zt254 + ['cpu', 'affinity', 'auto'])
        self.cli_commit()
        self.eventually(lambda: cpus(pids()[2]), found[2])
        self.assertEqual(pids(), before)

    def test_14_zerotier_mtu(self):
        self.running_example(2)
        self.assertEqual(members(), {'zt254p1': MTU, 'zt254p2': MTU})
        for mtu in (1280, 2810, 9890):
            self.cli_set(zt254 + ['mtu', str(mtu)])
            self.cli_commit()
            self.eventually(members, {'zt254p1': mtu, 'zt254p2': mtu})
            self.settled([1, 2])
        self.refused_at_set('zt254', 'mtu', '1279')
        self.refused_at_set('zt254', 'mtu', '10001')
        self.cli_set(zt254 + ['mtu', 'auto'])
        self.cli_commit()
        self.eventually(members, {'zt254p1': MTU, 'zt254p2': MTU})
        self.settled([1, 2])

    def test_29_zerotier_adjust_mss(self):
        before = self.running_example(2)
        rules = {
            f'meta nfproto ipv{family} tcp option maxseg size set {size}'
            for family, headers in ((4, 40), (6, 60)) for size in ('rt mtu', MTU - headers)
        }  # fmt: skip
        self.eventually(lambda: set(clamping()), rules)
        self.cli_set(zt254 + ['ip', 'adjust-mss', '1200'])
        self.cli_set(zt254 + ['ipv6', 'adjust-mss', 'disable'])
        self.cli_commit()
        self.eventually(clamping, ['meta nfproto ipv4 tcp option maxseg size set 1200'])
        self.cli_set(zt254 + ['ip', 'adjust-mss', 'disable'])
        self.cli_set(zt254 + ['ipv6', 'adjust-mss', 'clamp-mss-to-pmtu'])
        self.cli_commit()
        self.eventually(lambda: set(clamping()), {rule for rule in rules if 'ipv6' in rule})
        root('nft', 'delete', 'table', 'inet', 'zerotier_multi')
        self.eventually(lambda: set(clamping()), {rule for rule in rules if 'ipv6' in rule})
        self.refused_at_set('zt254', 'ip', 'adjust-mss', '535')
        self.refused_at_set('zt254', 'ipv6', 'adjust-mss', '65536')
        self.refused_at_set('zt254', 'ip', 'adjust-mss', 'auto')
        self.cli_set(zt254 + ['ipv6', 'adjust-mss', 'disable'])
        self.cli_commit()
        self.eventually(clamping, [])
        self.assertEqual(pids(), before)

    def test_28_zerotier_description(self):
        before = self.running_example(1, 'description to-the-branch')
        self.eventually(lambda: read('/sys/class/net/zt254/ifalias'), 'to-the-branch')
        self.cli_delete(zt254 + ['description'])
        self.cli_commit()
        self.eventually(lambda: read('/sys/class/net/zt254/ifalias'), '')
        self.assertEqual(pids(), before)

    def test_15_zerotier_disable(self):
        nodes = {k: node(k) for k in self.running_example(2)}
        self.cli_set(zt254 + ['disable'])
        self.cli_commit()
        self.eventually(pids, {})
        # As with other interfaces the device stays, down and without addresses
        self.eventually(lambda: sorted(devices()), ['zt254'])
        self.eventually(lambda: int(read('/sys/class/net/zt254/flags'), 16) & 1, 0)
        self.eventually(objects, {})
        self.assertEqual(routes(), {})
        self.assertEqual((read(hash_policy), read(hash_policy6)), self.hash_before)

        self.cli_delete(zt254 + ['disable'])
        self.cli_commit()
        self.assert_example(2)
        self.assertEqual({k: node(k) for k in pids()}, nodes)

    def test_16_zerotier_disable_instance(self):
        before = self.running_example(3)
        self.cli_set(zt254 + ['instance', '2', 'disable'])
        self.cli_commit()
        self.settled([1, 3])
        self.assertEqual(pids(), {k: before[k] for k in (1, 3)})
        # The others keep their places
        self.assertEqual(nexthops(), [('zt254p1', '198.18.14.2'), ('zt254p3', '198.18.14.10')])

        self.set_all(zt254, 'instance 1 disable', 'instance 3 disable')
        self.refused('every instance is disabled; disable the bundle instead')
        self.cli_delete(zt254 + ['instance'])
        self.cli_commit()
        self.settled([1, 2, 3])
        self.assertEqual({k: pids()[k] for k in (1, 3)}, {k: before[k] for k in (1, 3)})

    def test_17_zerotier_addresses(self):
        more = ['192.0.2.1/26', '192.0.2.64/32', '2001:db8:1::ffff/64', '2001:db8:55::1/128']
        before = self.running_example(1, *(f'address {address}' for address in more))
        self.eventually(lambda: addresses('zt254'), sorted(['198.18.55.1/32', *more]))
        self.assertEqual(routes()['198.18.55.2']['prefsrc'], '198.18.55.1')

        self.cli_delete(zt254 + ['address', '192.0.2.64/32'])
        self.cli_commit()
        more.remove('192.0.2.64/32')
        self.eventually(lambda: addresses('zt254'), sorted(['198.18.55.1/32', *more]))
        self.assertEqual(pids(), before)

        # Without any address the kernel chooses the source
        self.cli_delete(zt254 + ['address'])
        self.cli_commit()
        self.eventually(lambda: addresses('zt254'), [])
        self.eventually(lambda: 'prefsrc' in routes()['198.18.55.2'], False)
        self.assertEqual(pids(), before)

    def test_18_zerotier_ipv6(self):
        self.example(2)
        self.set_all(
            zt254,
            'transit prefix 2001:db8:14::/120',
            'address 2001:db8:55::1/128',
            'remote R2 prefix 2001:db8:55::2/128',
            'remote R2 prefix 2001:db8:100::/48',
        )
        self.cli_commit()
        self.settled([1, 2])
        self.settled([1, 2], '2001:db8:55::2', 6)
        self.settled([1, 2], '2001:db8:100::/48', 6)
        self.assertEqual(addresses('zt254p2'), ['198.18.14.5/30', '2001:db8:14::5/126'])
        self.assertEqual(nexthops(family=6), [('zt254p1', '2001:db8:14::2'), ('zt254p2', '2001:db8:14::6')])
        self.assertEqual(nexthops(), [('zt254p1', '198.18.14.2'), ('zt254p2', '198.18.14.6')])
        self.assertEqual(routes(6)['2001:db8:55::2']['prefsrc'], '2001:db8:55::1')
        # One group for each family, shared by the prefixes
        self.assertEqual(len(groups()), 2)

        # IPv6 prefixes need IPv6 transit
        self.cli_delete(zt254 + ['transit', 'prefix', '2001:db8:14::/120'])
        self.refused('needs IPv6 transit; add an IPv6 transit prefix')
        self.cli_delete(zt254 + ['remote', 'R2', 'prefix', '2001:db8:55::2/128'])
        self.cli_delete(zt254 + ['remote', 'R2', 'prefix', '2001:db8:100::/48'])
        self.cli_commit()
        self.eventually(lambda: routes(6), {})
        self.eventually(lambda: nexthops(family=6), [])
        self.settled([1, 2])

        # ... and IPv4 prefixes go over it where there is no other
        self.replace(zt254 + ['transit', 'prefix'], '2001:db8:14::/120')
        self.cli_commit()
        self.settled([1, 2])
        self.assertEqual(nexthops(), [])
        self.assertEqual(nexthops(family=6), [('zt254p1', '2001:db8:14::2'), ('zt254p2', '2001:db8:14::6')])

    def test_19_zerotier_remote_prefix(self):
        before, group = self.running_example(2), group_of_route('198.18.55.2')
        self.cli_set(zt254 + ['remote', 'R2', 'prefix', '192.0.2.0/24'])
        self.cli_commit()
        self.settled([1, 2], '192.0.2.0/24')
        self.assertEqual(group_of_route('192.0.2.0/24'), group)
        self.cli_delete(zt254 + ['remote', 'R2', 'prefix', '192.0.2.0/24'])
        self.cli_commit()
        self.eventually(lambda: list(routes()), ['198.18.55.2'])
        self.assertEqual(group_of_route('198.18.55.2'), group)
        self.assertEqual(pids(), before)

        self.cli_set(zt254 + ['remote', 'R2', 'prefix', '198.18.14.4/30'])
        self.refused('remote R2 prefix 198.18.14.4/30 is inside transit prefix 198.18.14.0/27; use another prefix')
        self.cli_delete(zt254 + ['remote', 'R2', 'prefix'])
        self.cli_commit()  # a routing protocol may find the way
        self.eventually(routes, {})
        self.assertEqual(pids(), before)
        self.cli_set(zt254 + ['remote', 'R2', 'prefix', '192.0.2.128/26'])
        self.cli_commit()
        self.settled([1, 2], '192.0.2.128/26')
        self.assertEqual(list(routes()), ['192.0.2.128/26'])

    def test_20_zerotier_several_remotes(self):
        self.example(2)
        self.set_all(
            zt254,
            'transit subnet-length 29',
            'remote R2 site 2',
            'remote R3 site 3',
            'remote R3 prefix 198.18.55.3/32',
            *(f'remote R3 instance {k} identity {identity(300 + k)}' for k in (1, 2)),
        )
        self.cli_commit()
        self.settled([1, 2])
        self.settled([1, 2], '198.18.55.3')
        both = [('zt254p1', '198.18.14.2'), ('zt254p1', '198.18.14.3'), ('zt254p2', '198.18.14.10'), ('zt254p2', '198.18.14.11')]
        self.assertEqual(nexthops(), both)
        self.assertEqual(len(groups()), 2)

        self.cli_set(zt254 + ['remote', 'R3', 'disable'])
        self.cli_commit()
        self.eventually(lambda: list(routes()), ['198.18.55.2'])
        self.settled([1, 2])
        self.assertEqual(nexthops(), [both[0], both[2]])

        # The number of a remote that is left out is free, until that remote comes back
        self.cli_set(zt254 + ['remote', 'R2', 'site', '3'])
        self.cli_commit()
        self.eventually(nexthops, [both[1], both[3]])
        self.settled([1, 2])
        self.cli_delete(zt254 + ['remote', 'R3', 'disable'])
        self.refused('remote R3 site 3 is also the site of remote R2; give each router its own number')
        self.cli_set(zt254 + ['remote', 'R2', 'site', '2'])
        self.cli_commit()
        self.settled([1, 2])
        self.settled([1, 2], '198.18.55.3')
        self.eventually(nexthops, both)

    def test_21_zerotier_hash_policy(self):
        before = self.running_example(2)
        for name, value in (('layer3', '0'), ('inner', '2'), ('layer4', '1')):
            self.cli_set(zt254 + ['balance', 'hash-policy', name])
            self.cli_commit()
            self.eventually(lambda: (read(hash_policy), read(hash_policy6)), (value, value))
        self.refused_at_set('zt254', 'balance', 'hash-policy', 'layer2')

        # The router has one policy
        self.second_bundle('instances 2', 'balance hash-policy layer3')
        self.replace(zt255 + ['transit', 'prefix'], '198.18.15.0/29')
        self.refused('zt255 balance hash-policy layer3 conflicts with layer4 of zt254, because the router has one hash policy')
        self.cli_delete(zt255 + ['balance'])
        self.cli_commit()
        self.settled([1, 2], '198.18.56.2', bundle='zt255', paths=[1])
        self.assertEqual(pids(), before)
        self.assertEqual(read(hash_policy), '1')

    def test_22_zerotier_resilient_groups(self):
        before = self.running_example(2)
        self.set_all(zt254, 'balance resilient buckets 64', 'balance resilient idle-timer 5')
        self.cli_commit()
        self.settled([1, 2])
        if self.resilient:
            self.eventually(lambda: resilience('198.18.55.2'), (64, 5))
        else:
            self.assertNotEqual(group_of_route('198.18.55.2').get('type'), 'resilient')
        self.cli_set(zt254 + ['balance', 'resilient', 'buckets', '256'])
        self.cli_commit()
        if self.resilient:
            self.eventually(lambda: resilience('198.18.55.2'), (256, 5))
        self.settled([1, 2])
        self.assertEqual(len(groups()), 1)
        self.assertEqual(pids(), before)
        self.refused_at_set('zt254', 'balance', 'resilient', 'buckets', '0')
        self.refused_at_set('zt254', 'balance', 'resilient', 'idle-timer', '86401')

    def test_29_zerotier_planet(self):
        # A root that nobody runs, at an address of the documentation: the instances are where they would look for it
        address = ip_address('198.51.100.1').packed + (9993).to_bytes(2, 'big')
        root_key = bytes.fromhex(identity(101).split(':')[2])
        planet = b'\x01' + (7).to_bytes(8, 'big') * 2 + bytes(160) + b'\x01'
        planet += bytes.fromhex(identity(101)[:10]) + b'\0' + root_key + b'\0\x01\x04' + address
        file = f'{homes}/zt254/1/planet'

        def digest():
            return root('sha256sum', file, check=False)[:64]

        self.set_all(zt254, f'network-id {network}', 'transit prefix 198.18.14.0/30', 'transit site 1')
        self.cli_set(zt254 + ['planet', base64.b64encode(planet[:-1]).decode()])
        self.refused('is not a valid planet (it is truncated); give the path of the planet file of your roots, or its base64 text')
        self.cli_set(zt254 + ['planet', '/config/no-such-planet'])
        self.refused('planet /config/no-such-planet is not readable (No such file or directory)')
        self.cli_set(zt254 + ['planet', base64.b64encode(planet).decode()])
        self.cli_commit()
        self.eventually(lambda: list(pids()), [1])
        self.assertEqual(digest(), hashlib.sha256(planet).hexdigest())
        self.eventually(lambda: [peer['address'] for peer in api('zt254', 1, '/peer') or []], [identity(101)[:10]])
        # zerotier-one makes its device before the controller answers, and the daemon sets it up a moment later
        self.eventually(lambda: read('/sys/class/net/zt254p1/mtu') in (None, str(MTU)), True)
        before = pids()

        self.cli_set(zt254 + ['controller-free'])
        self.refused("cannot be used in controller-free mode; delete planet or controller-free")
        self.cli_delete(zt254 + ['controller-free'])
        self.cli_delete(zt254 + ['planet'])
        self.cli_commit()
        self.eventually(lambda: list(pids()), [1])
        self.assertNotEqual(pids(), before)
        # The core writes the public one there
        self.assertNotEqual(digest(), hashlib.sha256(planet).hexdigest())

    def test_23_zerotier_network_per_instance(self):
        before = self.running_example(2)
        self.cli_set(zt254 + ['instance', '2', 'network-id', '8056c2e21c00000A'])
        self.cli_commit()
        self.eventually(lambda: joined(2), {'8056c2e21c00000a': 'zt254p2'})
        self.eventually(lambda: joined(1), {network: 'zt254p1'})
        self.settled([1, 2])
        self.assertEqual(pids()[1], before[1])

    def test_26_zerotier_weights(self):
        before = self.running_example(2)
        self.cli_set(zt254 + ['instance', '2', 'weight', '3'])
        self.cli_commit()
        self.eventually(lambda: [m.get('weight', 1) for m in group_of_route('198.18.55.2').get('group', [])], [1, 3])
        self.assertEqual(pids(), before)
        self.refused_at_set('zt254', 'instance', '2', 'weight', '0')
        self.cli_set(zt254 + ['instance', '2', 'backup'])
        self.refused('instance 2 backup needs the probes')
        self.cli_delete(zt254 + ['instance'])
        self.cli_commit()
        self.eventually(lambda: [m.get('weight', 1) for m in group_of_route('198.18.55.2').get('group', [])], [1, 1])

    def test_27_zerotier_all_paths_down(self):
        """R2 never answers: with a health check its route goes, unless it shall stay."""
        self.running_example(2)
        self.cli_delete(zt254 + ['health-check'])
        self.cli_commit()
        self.eventually(lambda: members_of_route('198.18.55.2/32') or members_of_route('198.18.55.2'), None)
        self.cli_set(zt254 + ['balance', 'all-paths-down', 'keep'])
        self.cli_commit()
        self.eventually(lambda: members_of_route('198.18.55.2'), ['zt254p1', 'zt254p2'])

    def test_43_zerotier_source_interface(self):
        """An uplink comes later than the configuration that names it, and goes with it."""
        gateway = ['ip', 'route', 'show', 'table', 'all', 'proto', '122', 'default']
        self.running_example(2, 'instance 2 source-interface smk0', 'instance 2 gateway 198.18.113.254')
        self.assertNotIn(f'sport {PORT + 1}', root('ip', 'rule'))
        self.addCleanup(root, 'ip', 'link', 'del', 'smk0', check=False)
        root('ip', 'link', 'add', 'smk0', 'type', 'bridge')
        root('ip', 'addr', 'add', '198.18.113.1/24', 'dev', 'smk0')
        root('ip', 'link', 'set', 'smk0', 'up')
        self.eventually(lambda: 'via 198.18.113.254 dev smk0' in root(*gateway), True)
        self.eventually(lambda: 'from 198.18.113.1 ' in root('ip', 'rule') and f'sport {PORT + 1}' in root('ip', 'rule'), True)
        self.assertNotIn(f'sport {PORT}', root('ip', 'rule'))
        self.cli_delete(zt254 + ['instance'])
        self.cli_commit()
        self.eventually(lambda: (f'sport {PORT + 1}' in root('ip', 'rule'), 'smk0' in root(*gateway)), (False, False))

    def test_24_zerotier_delete_one_of_two(self):
        before = self.running_example(2)
        self.second_bundle()
        self.cli_commit()
        self.settled([1], '198.18.56.2', bundle='zt255')
        self.assertEqual(pids(), before)
        self.eventually(lambda: udp_ports(set(pids('zt255').values())), {OTHER_PORT})
        self.assertEqual(addresses('zt255p1'), ['198.18.15.1/30'])

        self.cli_delete(zt255)
        self.cli_commit()
        self.eventually(lambda: pids('zt255'), {})
        self.eventually(lambda: sorted(devices()), ['zt254', 'zt254p1', 'zt254p2'])
        self.eventually(lambda: list(routes()), ['198.18.55.2'])
        self.assertEqual(nexthops('zt255'), [])
        self.assertEqual(pids(), before)
        self.assertIn('zt255/1/identity.public', identities())

    def test_25_zerotier_identities_survive(self):
        nodes = {k: node(k) for k in self.running_example(2)}
        self.cli_delete(zt254)
        self.cli_commit()
        self.eventually(processes, [])
        self.running_example(2)
        for k in nodes:
            self.eventually(lambda i=k: node(i), nodes[k])
        mode = root('stat', '-c', '%a', f'{homes}/zt254/1', f'{homes}/zt254/1/identity.secret').split()
        self.assertEqual(mode, ['700', '600'])

    def test_26_zerotier_identity_in_the_configuration(self):
        self.running_example(2)
        before = node(1)
        made = json.loads(root('/usr/libexec/vyos/op_mode/zerotier.py', 'generate_identity', '--raw'))
        secret = zt254 + ['instance', '1', 'identity', 'secret']
        self.cli_set(secret + [made['secret']])
        self.cli_commit()
        self.eventually(lambda: node(1), made['node'])
        self.settled([1, 2])
        self.assertEqual(root('stat', '-c', '%a', f'{homes}/zt254/1/identity.secret').strip(), '600')
        self.assertNotIn(made['secret'][142:], root('cat', f'{plans}/zt254.json'))

        other = f'{int(made["secret"][0], 16) ^ 1:x}{made["secret"][1:]}'
        for wrong in (other, made['public'], made['secret'][:-4] + '0000', 'x'):
            self.cli_set(secret + [wrong])
            self.refused('instance 1 identity secret')
        self.cli_set(secret + [made['secret']])
        self.cli_set(zt254 + ['instance', '2', 'identity', 'secret', made['secret']])
        self.refused(f'is of node {made["node"]}, as that of zt254/1')
        self.cli_delete(zt254 + ['instance'])
        self.cli_commit()
        self.eventually(lambda: node(1), before)

    # -- what is refused

    def test_30_zerotier_refused_at_set(self):
        self.running_example(1)
        before = snapshot()
        for name in ('zt256', 'zt01', 'zt', 'zt254p1', 'eth0'):
            self.refused_at_set(name, 'instances', '1')
        for path in (
            'instances 33',
            'instances 0',
            'instances many',
            'network-id 8056c2e21c00000',
            'network-id 8056c2e21c00000g',
            'instance 33 port 9993',
            'instance 1 port 0',
            'instance 1 cpu two',
            'instance 1 listen-address eth0',
            'instance 1 source-interface eth0/1',
            'instance 1 gateway eth0',
            'transit prefix 198.18.14.1/28',
            'transit site 511',
            'transit subnet-length 31',
            'remote R2 prefix 192.0.2.1/24',
            'remote R2 prefix 2001:db8::1/64',
            'remote R2 site 0',
            'remote R2 instance 1 identity 9e57000001',
            'remote R2 instance 1 endpoint r2.example.com',
            'cpu affinity some',
            'engine other',
            'health-check interval 49',
            'health-check multiplier 1',
        ):
            with self.subTest(path):
                self.refused_at_set('zt254', *path.split())
        # Nothing of it is left in the session
        self.cli_commit()
        self.assertEqual(snapshot(), before)

    def test_31_zerotier_network_id(self):
        self.example(2)
        self.cli_delete(zt254 + ['network-id'])
        self.refused('zt254 network-id is missing; set the 16 hexadecimal digits of the network')
        self.cli_set(zt254 + ['instance', '1', 'network-id', network])
        self.refused('instance 2 network-id is missing; set it here or for the whole bundle')
        self.cli_set(zt254 + ['network-id', 'ff00160016000000'])
        self.refused('is an ad-hoc network (it begins with ff), which anybody can join; choose another')
        self.cli_set(zt254 + ['network-id', network])
        self.refused('is a further network, which only a bundle of one instance can join, but there are 2')
        self.assertEqual(pids(), {})
        self.cli_delete(zt254 + ['instance'])
        self.replace(zt254 + ['network-id'], network)
        self.cli_set(zt254 + ['network', network, 'bridge', 'br0'])
        self.refused(f'network {network} bridge br0 needs a controller that lets this router bridge')
        self.cli_delete(zt254 + ['network'])
        self.cli_commit()
        self.assert_example(2)

    def test_32_zerotier_transit_prefix(self):
        before = self.running_example(2)
        self.cli_set(zt254 + ['instances', '4'])
        self.replace(zt254 + ['transit', 'prefix'], '198.18.14.0/29')
        self.refused('has room for 2 subnets of /30 but there are 4 instances; use a /28 or larger')
        self.replace(zt254 + ['transit', 'prefix'], '198.18.14.0/28')
        self.cli_commit()
        self.settled([1, 2, 3, 4], paths=[1, 2])
        self.assertEqual({k: pids()[k] for k in (1, 2)}, before)

        self.cli_set(zt254 + ['transit', 'prefix', '198.18.15.0/28'])
        self.refused('there are 2 IPv4 prefixes; keep one')
        self.cli_delete(zt254 + ['transit', 'prefix'])
        self.refused('transit prefix is missing; set it, because remotes are reached through it')
        self.cli_set(zt254 + ['transit', 'prefix', '198.18.15.0/28'])
        self.cli_commit()
        self.eventually(lambda: addresses('zt254p4'), ['198.18.15.13/30'])
        self.eventually(nexthops, [('zt254p1', '198.18.15.2'), ('zt254p2', '198.18.15.6')])
        self.settled([1, 2, 3, 4], paths=[1, 2])

    def test_33_zerotier_site(self):
        before = self.running_example(2)
        self.cli_delete(zt254 + ['transit', 'site'])
        self.refused("transit site is missing; set this router's host number in every transit subnet")
        self.cli_set(zt254 + ['transit', 'site', '3'])
        self.refused('transit site 3: a /30 has only hosts 1 to 2; choose one of these or a shorter subnet-length')
        self.cli_set(zt254 + ['transit', 'site', '2'])
        self.cli_commit()
        self.eventually(lambda: addresses('zt254p2'), ['198.18.14.6/30'])
        self.eventually(nexthops, [('zt254p1', '198.18.14.1'), ('zt254p2', '198.18.14.5')])
        self.settled([1, 2])
        self.assertEqual(pids(), before)

    def test_34_zerotier_remote_site(self):
        before = self.running_example(2)
        self.cli_set(zt254 + ['remote', 'R2', 'site', '1'])
        self.refused("remote R2 site 1 is the site of this router; set the number of the remote")
        self.cli_set(zt254 + ['remote', 'R2', 'site', '3'])
        self.refused('remote R2 site 3: a /30 has only hosts 1 to 2; use a shorter subnet-length')
        self.cli_set(zt254 + ['transit', 'subnet-length', '29'])
        self.cli_commit()
        self.eventually(nexthops, [('zt254p1', '198.18.14.3'), ('zt254p2', '198.18.14.11')])
        self.settled([1, 2])
        self.assertEqual(addresses('zt254p2'), ['198.18.14.9/29'])
        self.assertEqual(pids(), before)

        # In a larger subnet the other one is not known by itself
        self.cli_delete(zt254 + ['remote', 'R2', 'site'])
        self.refused('remote R2 site is missing; it can be inferred only in a two-host transit subnet')
        self.cli_set(zt254 + ['remote', 'R2', 'site', '2'])
        self.cli_commit()
        self.eventually(nexthops, [('zt254p1', '198.18.14.2'), ('zt254p2', '198.18.14.10')])
        self.settled([1, 2])

    def test_35_zerotier_colliding_ports(self):
        before = self.running_example(2)
        self.cli_set(zt254 + ['instance', '2', 'port', str(PORT)])
        self.refused(f'instance zt254/2 would use port {PORT}, as instance zt254/1 does; change one of the two ports')
        self.cli_delete(zt254 + ['instance'])

        self.second_bundle(f'primary port {PORT + 1}')
        self.refused(f'instance zt255/1 would use port {PORT + 1}, as instance zt254/2 does; change one of the two ports')
        self.cli_set(zt255 + ['primary', 'port', '12000'])
        self.cli_commit()
        self.settled([1], '198.18.56.2', bundle='zt255')
        self.eventually(lambda: udp_ports(set(pids('zt255').values())), {12000})
        self.assertEqual(pids(), before)

    def test_36_zerotier_overlapping_bundles(self):
        before = self.running_example(2)
        self.second_bundle('address 198.18.55.1/32')
        self.replace(zt255 + ['transit', 'prefix'], '198.18.14.16/29')
        self.refused(
            'zt255 transit prefix 198.18.14.16/29 overlaps 198.18.14.0/27 of zt254; give each bundle its own transit prefix',
            'zt255 address 198.18.55.1/32 is also an address of zt254; keep it on one of them',
        )
        self.replace(zt255 + ['transit', 'prefix'], '198.18.15.0/30')
        self.replace(zt255 + ['address'], '198.18.56.1/32')
        self.replace(zt255 + ['remote', 'R2', 'prefix'], '198.18.55.2/32')
        self.refused('zt255 remote R2 prefix 198.18.55.2/32 is also a prefix of remote R2 of zt254; keep it at one of them')
        self.replace(zt255 + ['remote', 'R2', 'prefix'], '198.18.56.2/32')
        self.cli_commit()
        self.settled([1], '198.18.56.2', bundle='zt255')
        self.settled([1, 2])
        self.assertEqual(pids(), before)

    def test_37_zerotier_taken_port(self):
        before = self.running_example(1, 'primary port 12000')
        self.cli_set(zt254 + ['instances', '2'])
        self.cli_set(zt254 + ['remote', 'R2', 'instance', '2', 'identity', identity(2)])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
            holder.bind(('', 12001))
            self.refused('instance zt254/2 cannot use port 12001, because another program uses UDP port 12001')
        self.cli_commit()
        self.settled([1, 2])
        self.assertEqual(pids()[1], before[1])
        self.eventually(lambda: udp_ports({pids()[2]}), {12001})

    def test_38_zerotier_engine(self):
        found = installed_engines()
        self.assertNotEqual(found, [])
        self.running_example(1)
        for name in [name for name in engines if name not in found]:
            self.cli_set(zt254 + ['engine', name])
            wanted = 'zerotier-one 1.14 or later' if name == 'zerotier-one' else name
            self.refused(f'engine {name}: {wanted} is not installed', 'install its package or set engine auto')
        for name in found:
            self.cli_set(zt254 + ['engine', name])
            self.cli_commit()
            self.eventually(lambda: engine(pids().get(1)), name)
            self.assert_example(1)

        # auto takes ztnode where it is installed, and says so
        self.cli_set(zt254 + ['engine', 'auto'])
        self.cli_commit()
        best, reason = ('ztnode', 'auto') if 'ztnode' in found else ('zerotier-one', 'auto: ztnode is not installed')
        self.eventually(lambda: engine(pids().get(1)), best)
        with open(f'{plans}/zt254.json') as f:
            self.assertEqual(json.load(f)['engine_reason'], reason)

    def test_39_zerotier_identities(self):
        self.running_example(2)
        own = identities()['zt254/1/identity.public']
        self.cli_set(zt254 + ['remote', 'R2', 'instance', '2', 'identity', identity(1)])
        self.refused('is the identity of R2 instance 1; give each instance its own identity')
        self.cli_set(zt254 + ['remote', 'R2', 'instance', '2', 'identity', own])
        self.refused('is the identity of zt254/1 on this router; set the identity that R2 prints')
        self.cli_set(zt254 + ['remote', 'R2', 'instance', '2', 'identity', identity(22)])
        self.cli_commit()
        self.settled([1, 2])

        # Where an identity is not known yet there is no path, and nothing is refused
        self.cli_delete(zt254 + ['remote', 'R2', 'instance', '2'])
        self.cli_commit()
        self.settled([1, 2], paths=[1])

    def test_40_zerotier_vrf_that_is_missing(self):
        before = self.running_example(1)
        self.cli_set(zt254 + ['vrf', 'nowhere'])
        self.refused('vrf nowhere does not exist; create it first, on VyOS by set vrf name nowhere')
        self.cli_delete(zt254 + ['vrf'])
        self.cli_set(zt254 + ['remote', 'R2', 'prefix', '192.0.2.0/24'])
        self.cli_commit()
        self.settled([1], '192.0.2.0/24')
        self.assertEqual(pids(), before)


if __name__ == '__main__':
    main()
