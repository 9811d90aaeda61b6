# SPDX-License-Identifier: BSD-2-Clause
"""Multicast: a group of processes, of several users and in several namespaces, and one that sends to it."""
import subprocess

from harness import NORMAL, QUICK, Case, Side, Skip, VethPair, expect, may_make_netns, start

NOBODY = 65534
GROUPS = {4: '239.44.55.66', 6: 'ff15::4:5:6'}
LINK_LOCAL = 'ff02::4:5:6'
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
    if may_make_netns():
        raise Skip('other users need root')
    return spread(config, topo.client, [(topo.client, None), (Side('hostc=127.0.0.3', '127.0.0.3', name='hostc'), NOBODY)],
                  TWO_USERS)


def veth(group, family):
    def run(config, lab):
        topo = lab.get(f'veth1500-v{family}')
        topo.check()
        return spread(config, topo.client, [(topo.client, None), (topo.server, None), (topo.server, None)], group)
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
        Case('mcast/other-interface', other_interface, NORMAL),
    ]
