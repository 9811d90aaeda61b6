# SPDX-License-Identifier: BSD-2-Clause
"""Results of the calls on addresses, with rxe's rdma_cm and with rocemu's: the same table program (cm-addr), line by line."""
import re
import subprocess

import guest as vm
import harness
from peers import Row

GROUP = 'Addresses'              # not one of the tables
DEAD = '10.77.0.99'

# Where rocemu's differs on purpose: (cases, rocemu's, rxe's, why); all three are searched for.
DIFFERENCES = (
    (r'\bib:|family 27', r'', r'ENODEV',
     'AF_IB: the kernel has it on InfiniBand only. On RoCE it refuses to bind a GID or to resolve a route to a GID (ENODEV).'),
    (r'to (ib:)?(any|lo)[46]', r'ADDR_ERROR ENODEV', r'from (ib:)?lo[46]:.* route ENODEV',
     'To a loopback address that no device has: the kernel resolves the address and no route to it, rocemu does not resolve the '
     'address. (Where the loopback interface is a device, the default, such addresses work.)'),
    (r'bound own4 .*to any4|from own4:0 to any4', r'to own4:7500 .*path own4 own4', r'to any4:7500 .*path own4 any4',
     'A wildcard as destination: the kernel leaves it in the path, rocemu\'s path has the ID\'s own address.'),
    (r'\bps 2\b', r'ok', r'EINVAL', 'RDMA_PS_IPOIB: the kernel has it on InfiniBand only.'),
    (r'^bind port 80', r'nobody ok', r'nobody EACCES', 'Ports below 1024 need no privilege.'),
    (r'^bind two', r'EADDRINUSE|listen ok listen ok', r'EADDRNOTAVAIL|EADDRINUSE listen EADDRINUSE',
     'Ports: if a wildcard has the port, the kernel returns EADDRNOTAVAIL, rocemu EADDRINUSE. If two IDs share a port with REUSEADDR, '
     'the kernel lets none of them listen. rocemu lets the first one listen, and lets a wildcard and an address both listen. '
     'The two must be of one user: another user could otherwise take the first one\'s requests.'),
    (r'^bind twice', r'bind EINVAL reuseaddr EINVAL afonly EINVAL', r'bind EINVAL reuseaddr ok afonly ok',
     'REUSEADDR and AFONLY have to be set before rdma_bind_addr(), which takes the port.'),
    (r'own4.* to far4', r'ENETUNREACH', r'ADDR_ERROR ETIMEDOUT',
     'Without a route, rocemu returns ENETUNREACH at once, for bound and unbound IDs. '
     'For a bound ID the kernel sends requests on the link.'),
    (r'll6', r'from ll6%:', r'from ll6:',
     'On rocemu a link-local source address always has its interface (sin6_scope_id).'),
    (r'^resolve bound - from lo4', r'from lo4:\+', r'from -',
     'If rdma_resolve_addr() binds an ID and then fails, rocemu shows the address in the ID.'),
)


def link_local():
    """The tap's own; it has one a moment after it has come up."""
    p = subprocess.run(['ip', '-6', '-o', 'address', 'show', 'dev', vm.TAP, 'scope', 'link'], capture_output=True, text=True,
                       check=True)
    found = re.search(r'inet6 (fe80:\S+)/', p.stdout)
    if not found or 'tentative' in p.stdout:
        raise harness.Failure(f'{vm.TAP} has no link-local address\n{p.stdout}')
    return found.group(1)


def table(wire, end, interface, linklocal):
    other = wire.rxe if end is wire.rocemu else wire.rocemu
    argv = [end.program('cm-addr'), interface, *(x for f in ('v4', 'v6') for x in (
        end.address(f), other.address(f), *((DEAD,) if f == 'v4' else ()))), linklocal]
    p = end.start(argv, f'cm-addr, {end.device}')
    try:
        p.wait()
        lines = dict(line.split(': ', 1) for line in p.stdout.splitlines())
        if p.running() or len(lines) < 100:
            raise harness.Failure(p.report())
        return lines
    finally:
        p.kill()


def why_differs(case, ours, theirs):
    for i, (cases, our, their, _) in enumerate(DIFFERENCES):
        if re.search(cases, case) and re.search(our, ours) and re.search(their, theirs):
            return i
    return None


def compare(wire):
    guest_ll = re.search(r'inet6 (fe80:\S+)/', wire.guest.run('ip', '-6', '-o', 'address', 'show', 'dev', 'eth0')).group(1)
    ours = table(wire, wire.rocemu, vm.TAP, link_local())
    theirs = table(wire, wire.rxe, 'eth0', guest_ll)
    bad, seen = [], set()
    for case in sorted(set(ours) | set(theirs)):
        our, their = ours.get(case, 'nothing'), theirs.get(case, 'nothing')
        if our == their:
            continue
        why = why_differs(case, our, their)
        seen.add(why)
        if why is None:
            bad.append(f'{case}\n  ours:   {our}\n  kernel: {their}')
    bad += [f'no longer seen: {d[3]}' for i, d in enumerate(DIFFERENCES) if i not in seen]
    if bad:
        raise harness.Failure('\n'.join(bad))
    return [Row(GROUP, 'addresses', 'pass')], f'{len(ours)} calls'


NOTES = ('The calls of librdmacm on addresses (bind, listen, resolve, look up, in every family) have the same results on rxe\'s rdma_cm '
         'and on rocemu, with these exceptions:', *(f'Addresses: {d[3]}' for d in DIFFERENCES))
