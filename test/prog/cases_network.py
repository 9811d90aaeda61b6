# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios on networks that differ: interfaces without one offload or another (segmentation and merging are then
done elsewhere, or not at all), and link-local IPv6 addresses, which need a scope."""
import re
import subprocess
import time

import scenario_pair
from harness import FULL, NORMAL, POLL_S, Case, Failure, Side, Skip, Topology, VethPair, expect, may_make_netns, pair

OFFLOADS = {
    'no-udp-segmentation': ('tx-udp-segmentation', 'off'),
    'no-gso': ('gso', 'off'),
    'no-gro': ('gro', 'off'),
    'no-checksums': ('tx', 'off', 'rx', 'off'),
    'no-scatter-gather': ('sg', 'off', 'gro', 'off'),
    'gro-forwarding': ('gro', 'on', 'rx-udp-gro-forwarding', 'on'),
    'gro-list': ('rx-gro-list', 'on'),
}


def flow(config, topo, transport, *more):
    """All kinds of messages. more: a command before the program."""
    b, a = scenario_pair.argv(config, topo, ('verbs-flow',), options=scenario_pair.text_options(topo, transport))
    scenario_pair.passed(pair(config, topo, [*more, *b], [*more, *a])[1])


def on_veth(function):
    """The case with a veth pair of its own, since it changes it."""
    def check(config, lab):
        why_not = may_make_netns()
        if why_not:
            raise Skip(why_not)
        veth = VethPair(1500)
        try:
            return function(config, veth)
        finally:
            veth.close()
    return check


def sides(veth, addresses):
    return Topology('veth', *(Side('dev0=veth0', addresses[i], veth.names[i], tcp=veth.v4[i]) for i in (0, 1)))


def offload(features):
    def check(config, veth):
        for name in veth.names:
            p = subprocess.run(['ip', 'netns', 'exec', name, 'ethtool', '-K', 'veth0', *features],
                               capture_output=True, text=True)
            if p.returncode != 0:
                raise Skip(f'ethtool: {p.stderr.strip()}')
        for addresses in (veth.v4, veth.v6):
            for transport in ('rc', 'uc', 'ud'):
                flow(config, sides(veth, addresses), transport)
    return on_veth(check)


def link_local_address(veth, name):
    """As soon as duplicate address detection is through."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        m = re.search(r'inet6 (fe80:\S+)/', veth.ip('-n', name, '-6', 'address', 'show', 'dev', 'veth0', '-tentative'))
        if m:
            return m.group(1)
        time.sleep(POLL_S)
    raise Failure(f'no link-local address in {name}')


def link_local(config, veth):
    topo = sides(veth, [link_local_address(veth, name) for name in veth.names])
    for transport in ('rc', 'uc', 'ud'):
        flow(config, topo, transport)


def cases():
    result = [Case('network/link-local', on_veth(link_local), NORMAL)]
    for name, features in OFFLOADS.items():
        level = NORMAL if name in ('no-udp-segmentation', 'no-gro', 'no-checksums') else FULL
        result.append(Case(f'network/{name}', offload(features), level, needs=('ethtool',)))
    return result
