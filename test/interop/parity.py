# SPDX-License-Identifier: BSD-2-Clause
"""`rocemu parity` inside the guest: rxe against rocemu, both there.

rxe takes UDP port 4791 of the network namespace that the driver lives in, on every address, so rocemu has one of its
own, and a veth between the two carries what goes from one to the other. The kernel shows rxe's devices in every
namespace. The programs are this build's; the libraries that they need beyond the guest's come along.
"""
import os
import re
import shutil
import subprocess

import harness

GROUP = 'Parity'      # no table of docs/interop.md: it is in docs/parity.md
RXE, EMULATED = 'rxe1', 'emu'
NETNS, RXE_SIDE, OUR_SIDE = 'emu', 'par0', 'par1'
ADDRESSES = {RXE_SIDE: ('10.78.0.1/24', 'fd78::1/64'), OUR_SIDE: ('10.78.0.2/24', 'fd78::2/64')}
PROGRAMS = ('tools/rocemu', 'lab/parity/rocemu-parity', 'test/scenario/scenario-verbs', 'src/agent/rocemu-agent', 'src/verbs/libibverbs.so.1')
LIBRARIES = 'interop-libraries'
GUEST_LIBRARIES = '/usr/lib/x86_64-linux-gnu'
GUARD_S = 1800
# The cover: what differs most among devices, and some of the rest.
COVER = ('error/*rkey', 'error/rc/send', 'async/', 'flush/', 'arm/', 'window/', 'wr/rc', 'query/', 'data/*/1025',
         'data/rc/atomic', 'state/rc/post')


def libraries_of(program):
    p = subprocess.run(['ldd', program], capture_output=True, text=True, check=False)
    return re.findall(r'=> (/\S+)', p.stdout)


def bring_libraries(guest, build):
    """Libraries of the programs, from this machine into the guest, where it lacks them."""
    where = os.path.join(build, LIBRARIES)
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    for program in PROGRAMS:
        for library in libraries_of(os.path.join(build, program)):
            shutil.copy(library, where)
    guest.run('sh', '-c', f'cp -n /build/{LIBRARIES}/* {GUEST_LIBRARIES}/')


def make_network(guest):
    """A namespace for rocemu, a veth into it, rxe on the other end of that."""
    guest.run('ip', 'netns', 'add', NETNS)
    guest.run('ip', 'link', 'add', RXE_SIDE, 'type', 'veth', 'peer', 'name', OUR_SIDE, 'netns', NETNS)
    for side, where in ((RXE_SIDE, ()), (OUR_SIDE, ('-n', NETNS))):
        v4, v6 = ADDRESSES[side]
        guest.run('ip', *where, 'link', 'set', side, 'up')
        guest.run('ip', *where, 'address', 'add', v4, 'dev', side)
        guest.run('ip', *where, 'address', 'add', v6, 'dev', side, 'nodad')
    guest.run('ip', '-n', NETNS, 'link', 'set', 'lo', 'up')
    guest.run('rdma', 'link', 'add', RXE, 'type', 'rxe', 'netdev', RXE_SIDE)


def prepare(wire):
    if not wire.parity_ready:
        make_network(wire.guest)
        wire.parity_ready = True


def compare(wire, patterns):
    """Run the tool; its report in Markdown, and its line for the table of contents."""
    prepare(wire)
    only = [word for pattern in patterns for word in ('--only', pattern)]
    p = wire.guest.start(['ip', 'netns', 'exec', NETNS, '/build/tools/rocemu', 'parity', '--device', RXE, '--device',
                          f'{EMULATED}={OUR_SIDE}', '--known', 'rxe', '--markdown', *only], 'parity')
    if p.wait(GUARD_S) != 0:
        raise harness.Failure(f'rocemu parity: exit code {p.returncode}\n{p.stdout}{p.stderr}')
    row = re.search(r'^\| all \|(.*)\|$', p.stdout, re.M)
    if not row:
        raise harness.Failure(f'rocemu parity: no table\n{p.report()}')
    every, same, _, known, unstable, *_ = (cell.strip() or '0' for cell in row.group(1).split('|'))
    return p.stdout, f'{every} scenarios: {same} the same, {known} known differences, {unstable} unstable'
