# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces with no address, and with many: what is listed and printed, and what it costs."""
import re
import subprocess

from harness import HANG_GUARD_S, NORMAL, QUICK, Case, Skip, expect


class Plain:
    """A process that has ended, as harness.expect() shows it."""

    def __init__(self, argv, p):
        self.argv, self.code, self.stdout, self.stderr = argv, p.returncode, p.stdout, p.stderr

    def report(self):
        return f'  {" ".join(self.argv)} -> {self.code}\n    out| {self.stdout}\n    err| {self.stderr}'


def unshared(script):
    """Run a shell script as root of a new network namespace, as any user may."""
    argv = ['unshare', '-r', '-n', 'sh', '-c', script]
    p = subprocess.run(argv, capture_output=True, text=True, timeout=HANG_GUARD_S, check=False)
    if 'unshare:' in p.stderr:
        raise Skip(p.stderr.strip())
    return Plain(argv, p)


def none(config, _lab):
    """The first thing that people try: a fresh namespace, in which lo is down."""
    said = 'no device: no interface has a usable address: lo is down: `ip link set lo up`\n'
    for option, out in (('', ''), ('--json', '[]\n')):
        p = unshared(f'{config.rocemu} devices {option}')
        expect(p.code == 1 and p.stdout == out and p.stderr == f'rocemu devices: {said}', 'not said by devices', p)
    p = unshared(f'{config.rocemu} run --log why -- ibv_devinfo')
    expect(f'rocemu: why: ibv_get_device_list: {said}' in p.stderr and 'No IB devices' in p.stderr, 'no reason', p)
    p = unshared(f'{config.rocemu} run --log why -- rping -s')
    expect(said in p.stderr, 'no reason for rdma_cm', p)
    # The command that is printed mends it.
    command = re.search('`(.*)`', said).group(1)
    p = unshared(f'{command} && {config.rocemu} devices')
    expect(p.code == 0 and 'rocemu_lo' in p.stdout and not p.stderr, 'the command does not help', p)


def none_usable(config, _lab):
    """Each interface is named with what it lacks."""
    p = unshared('ip link set lo up; ip address flush dev lo; ip link add v1 type veth peer name v2; ip link set v2 addrgenmode none up; '
                 'ip link add br0 type bridge; ip link set v1 master br0; '
                 f'{config.rocemu} devices')
    for text in ('lo has no address: `ip address add 127.0.0.1/8 dev lo`',
                 'v2 has no address: `ip address add ADDRESS/PREFIX dev v2`',
                 'br0 is down and has no address: `ip address add ADDRESS/PREFIX dev br0`, `ip link set br0 up`',
                 'v1 is a port of a bridge: give that an address, or `--device v1`'):
        expect(text in p.stderr and p.code == 1, f'"{text}" is not said', p)


def cases():
    return [
        Case('addresses/none', none, QUICK, needs=('unshare', 'ip', 'rping')),
        Case('addresses/none-usable', none_usable, NORMAL, needs=('unshare', 'ip')),
    ]
