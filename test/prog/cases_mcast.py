# SPDX-License-Identifier: BSD-2-Clause
"""Multicast: a group of processes, of several users and in several namespaces, and one that sends to it."""
import re
import subprocess

from harness import NOBODY, NORMAL, QUICK, Case, Side, Skip, VethPair, expect, gid_index, may_make_netns, need_user, pair, start

GROUPS = {4: '239.44.55.66', 6: 'ff15::4:5:6'}
LINK_LOCAL = 'ff02::4:5:6'
INTERFACE_LOCAL = 'ff01::4:5:6'
# Those of all scopes and kinds; of IPv4 also those that routers do not forward, and one of SSM.
ALL_KINDS = ('224.0.0.55', '232.55.66.77', '239.255.255.255', 'ff01::55', 'ff11::55', 'ff31:30:fd00::55', 'ff02::1', 'ff02::55',
             'ff12:401b:ffff::55', 'ff05::55', 'ff08::55', 'ff0e::55', 'ff0f::55', 'ff7e:140:fd55::55')
TWO_USERS = '239.44.55.67'  # not the first: cases may run at the same time on the same lo
COUNT = 60


def check(config, side, group, *options, name, user=None):
    argv = [config.program('prog', 'mcast-check'), '--device', side.name, '--address', side.address, '--group', group,
            '--count', COUNT, *options]
    return start(config, side, argv, name, user=user)


def spread(config, sender, receivers, group, *options):
    """All receivers and the sender, which is in the group itself, get every message. receivers: (side, user)."""
    procs = []
    try:
        for i, (side, user) in enumerate(receivers):
            procs.append(check(config, side, group, '--receive', *options, name=f'receiver {i}', user=user))
        for p in procs:
            p.wait_until(lambda p=p: 'ready' in p.stdout, 'it had joined')
        procs.append(check(config, sender, group, '--send', '--member', *options, name='sender'))
        for p in procs:
            p.wait()
        for p in procs:
            expect(p.popen.returncode == 0 and p.stdout.endswith('ok\n'), f'{p.name} failed', *procs)
    finally:
        for p in procs:
            if p.running():
                p.kill()
    return f'{len(receivers)} receivers'


def route_ipv6_groups_over_lo():
    """The kernel has no route of its own for them (docs/troubleshooting.md)."""
    p = subprocess.run(['ip', '-6', 'route', 'replace', 'local', 'ff00::/8', 'dev', 'lo', 'table', 'local'],
                       capture_output=True, text=True)
    if p.returncode != 0:
        raise Skip(f'no route for IPv6 groups over lo: {p.stderr.strip()}')


def loopback(family):
    def run(config, lab):
        if family == 6:
            route_ipv6_groups_over_lo()
        topo = lab.get('lo' if family == 4 else 'lo6')
        return spread(config, topo.client, [(topo.server, None)] * 3, GROUPS[family])
    return run


def two_users(config, lab):
    topo = lab.get('lo-two')
    need_user(NOBODY, config.rocemu)
    return spread(config, topo.client, [(topo.client, None), (Side('hostc=127.0.0.3', '127.0.0.3', name='hostc'), NOBODY)],
                  TWO_USERS)


def veth(group, family):
    def run(config, lab):
        topo = lab.get(f'veth1500-v{family}')
        topo.check()
        return spread(config, topo.client, [(topo.client, None), (topo.server, None), (topo.server, None)], group)
    return run


def all_kinds(config, lab):
    """Each group between two hosts: Linux drops some on receive, which adapters do not (docs/verbs.md)."""
    for group in ALL_KINDS:
        topo = lab.get(f'veth1500-v{6 if ":" in group else 4}')
        topo.check()
        spread(config, topo.client, [(topo.server, None)], group, '--first', 7)
    return f'{len(ALL_KINDS)} groups'


def default_group(config, lab):
    """perftest's own: of interface-local scope."""
    topo = lab.get('veth1500-v6')
    topo.check()
    options = ['-c', 'UD', '-g', '-x', str(gid_index(config, topo.server)), '-n', 500, '-s', 1000, '-F', '-p', '{port}']
    server, client = pair(config, topo, ['ib_send_bw', *options], ['ib_send_bw', *options, '{server}'])
    expect('MGID: 255:01:' in client.stdout, 'not that group', client)
    for p in (server, client):
        expect(re.search(r'^ 1000 +500 ', p.stdout, re.M), 'no result', p)


def mckey(group, address):
    """A group joined by rdma_cm, with an address of the device that has no scope."""
    def run(config, lab):
        topo = lab.get('veth1500-v6')
        topo.check()
        argv = ['stdbuf', '-oL', 'mckey', '-m', group, '-C', 4]
        procs = [start(config, topo.server, [*argv, *address(topo.server)], 'receiver')]
        try:
            procs[0].wait_until(lambda: 'receiving' in procs[0].stdout, 'it had joined')
            procs.append(start(config, topo.client, [*argv, '-s', *address(topo.client)], 'sender'))
            for p in procs:
                expect(p.wait() == 0 and 'return status 0' in p.stdout and f'joined dgid: {group} ' in p.stdout, 'failed', *procs)
        finally:
            for p in procs:
                if p.running():
                    p.kill()
    return run


def other_interface(config, lab):
    """A group joined on one interface gets nothing from another, and what a device sends leaves by its own."""
    why_not = may_make_netns()
    if why_not:
        raise Skip(why_not)
    pair = VethPair(1500)
    try:
        name = pair.names[0]
        # Later than the first, so that a kernel that may choose does not choose it.
        pair.ip('-n', name, 'link', 'add', 'late0', 'type', 'veth', 'peer', 'name', 'late1')
        for link in ('late0', 'late1'):
            pair.ip('-n', name, 'link', 'set', link, 'up')
        pair.ip('-n', name, 'address', 'add', '10.99.0.1/24', 'dev', 'late0')
        pair.ip('-n', name, 'address', 'add', 'fd99::1/64', 'dev', 'late0', 'nodad')
        for group, here, there in ((GROUPS[4], '10.99.0.1', pair.v4[0]), (GROUPS[6], 'fd99::1', pair.v6[0])):
            late, first = Side('dev0=late0', here, name), Side('dev0=veth0', there, name)
            stranger = check(config, late, group, '--receive', '--first', 100, name='receiver on late0')
            try:
                stranger.wait_until(lambda p=stranger: 'ready' in p.stdout, 'it had joined')
                spread(config, first, [(first, None)], group)
                # Its turn now. One of the others would have been the wrong one.
                spread(config, late, [], group, '--first', 100)
                expect(stranger.wait() == 0, 'the receiver on late0 failed', stranger)
            finally:
                if stranger.running():
                    stranger.kill()
    finally:
        pair.close()


def cases():
    return [
        Case('mcast/lo/ipv4', loopback(4), QUICK),
        Case('mcast/lo/ipv6', loopback(6), NORMAL),
        Case('mcast/lo/two-users', two_users, NORMAL),
        Case('mcast/veth/ipv4', veth(GROUPS[4], 4), NORMAL),
        Case('mcast/veth/ipv6', veth(GROUPS[6], 6), NORMAL),
        Case('mcast/veth/ipv6-link-local', veth(LINK_LOCAL, 6), NORMAL),
        Case('mcast/veth/ipv6-interface-local', veth(INTERFACE_LOCAL, 6), NORMAL),
        Case('mcast/veth/all-kinds', all_kinds, NORMAL),
        Case('mcast/veth/perftest-default', default_group, NORMAL, needs=('ib_send_bw',)),
        *(Case(f'mcast/veth/mckey.{name}', mckey(group, address), NORMAL, needs=('mckey', 'stdbuf'))
          for name, group, address in (('interface-local', INTERFACE_LOCAL, lambda side: ('-b', side.address)),
                                       ('link-local', LINK_LOCAL, lambda side: ('-b', side.address)),
                                       ('unbound', INTERFACE_LOCAL, lambda side: ()))),
        Case('mcast/other-interface', other_interface, NORMAL),
    ]
