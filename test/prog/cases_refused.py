# SPDX-License-Identifier: BSD-2-Clause
"""System calls that a sandbox refuses, and ports that the system reserves: programs work without what is optional, and else a
line names the cause. Both programs, `rocemu run` and the agent that they start are refused the same."""
import errno
import re
import socket

from cases_bare import Host
from cases_limits import pair
from harness import NORMAL, Case, Skip, expect

SECCOMP = 'a seccomp filter is in force'
WITHOUT = ('close_range', 'faccessat2', 'fallocate', 'flock', 'getrandom', 'memfd_create', 'mknodat', 'recvmmsg', 'sched_setattr',
           'sendmmsg')
NEEDED = {
    'clone3': ('clone3', ()), 'epoll': ('epoll_create1', ()), 'eventfd': ('eventfd2', ()), 'timerfd': ('timerfd_create', ()),
    'setsid': ('setsid', ()), 'netlink': ('socket', (f'0={int(socket.AF_NETLINK)}',)),
    'reuseport': ('setsockopt', (f'1={socket.SOL_SOCKET}', '2=15')),         # SO_REUSEPORT
    'reuseport-bpf': ('setsockopt', (f'1={socket.SOL_SOCKET}', '2=51')),     # SO_ATTACH_REUSEPORT_CBPF
}
# glibc does without these calls only where the kernel does not have them.
ABSENT_IS_FINE = ('clone3',)


def refused(config, call, error, arguments, options):
    filter_argv = ' '.join([config.program('prog', 'refuse-call'), call, str(error), *arguments, '--'])
    with Host(config, ':', ':') as host:
        host.script = f'exec {filter_argv} "$@"'
        procs = pair(host, options)
        # The agent that these have started.
        procs += [host.run([config.rocemu, 'agent', '--status'], 'status')] if not any(p.popen.returncode for p in procs) else []
    if any('no seccomp filter' in p.stderr for p in procs):
        raise Skip(procs[0].stderr.strip())
    return procs


def without(call):
    def check(config, _lab):
        for error in (errno.EPERM, errno.ENOSYS):
            procs = refused(config, call, error, (), ('--wire', 'shm'))
            expect(all(p.popen.returncode == 0 for p in procs), f'not without {call} ({errno.errorcode[error]})', *procs)
    return check


def needed(name):
    call, arguments = NEEDED[name]

    def check(config, _lab):
        for error in (errno.EPERM, errno.ENOSYS):
            if error == errno.ENOSYS and call in ABSENT_IS_FINE:
                continue
            procs = refused(config, call, error, arguments, ())
            expect(any(p.popen.returncode for p in procs) and any(SECCOMP in p.stderr for p in procs),
                   f'{name} ({errno.errorcode[error]}): no line names the filter', *procs)
    return check


def port(config, _lab):
    """UDP port 4791 below net.ipv4.ip_unprivileged_port_start."""
    for first, works in ((4792, False), (4791, True)):
        sysctl = f'echo {first} > /proc/sys/net/ipv4/ip_unprivileged_port_start'
        with Host(config, sysctl, 'exec setpriv --reuid=61235 --regid=61235 --clear-groups "$@"') as host:
            procs = pair(host)
            said = any(re.search(rf'is for privileged users.*{first}; as root: .sysctl', p.stderr) for p in procs)
            expect(said != works and all(p.popen.returncode == 0 for p in procs) == works, f'the first port is {first}', *procs)


def cases():
    for call in WITHOUT:
        yield Case(f'refused/{call}', without(call), NORMAL, needs=('ibv_rc_pingpong',))
    for name in NEEDED:
        yield Case(f'refused/{name}', needed(name), NORMAL, needs=('ibv_rc_pingpong',))
    yield Case('refused/port', port, NORMAL, needs=('ibv_rc_pingpong',))
