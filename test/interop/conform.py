# SPDX-License-Identifier: BSD-2-Clause
"""rocemu conform against rxe in the guest: each difference is one of those that the program knows of rxe."""
import contextlib
import re
import signal

import guest as vm
import harness
import peers

GROUP = 'Conformance'      # no table of docs/interop.md
GUARD_S = 600
AGAIN_S = 2
# Servers that end after each connection, and begin again. SIGTERM ends both.
LOOP = "trap 'kill $p; exit' TERM; while :; do {} & p=$!; wait $p; done"
SUMS = re.compile(r'^\d+ (?:pass|FAIL|warn|known|measured|unsupported|skip|inconclusive)\b.*$', re.M)


def servers(wire):
    gid = peers.gid_index(wire.rxe, 'v4')
    device = f'-d {wire.rxe.device} -g {gid}'
    # Nothing shows from outside that it listens; it does when the others do.
    yield wire.guest.start(['rping', '-s', '-P', '-S', '32768', '-a', vm.GUEST_V4], 'rping')
    for argv, port in ((LOOP.format(f'ibv_rc_pingpong {device}'), 18515),
                       (LOOP.format(f'ibv_uc_pingpong {device} -n 64 -p 18516'), 18516),
                       (LOOP.format(f'ibv_ud_pingpong {device} -n 64 -p 18517'), 18517),
                       (f'exec {wire.rxe.program("conform-peer")} {device} -b {vm.GUEST_V4}', 18520)):
        p = wire.guest.start(['sh', '-c', argv], f'server on port {port}')
        yield p
        p.wait_listening(port)


def end(program):
    """A shell may get the signal when it is about to wait for the next server, and does not see it then."""
    while program.running() and program.guest.alive:
        program.guest.send(id=program.order, kill=int(signal.SIGTERM))
        with contextlib.suppress(vm.Failure):
            program.wait(AGAIN_S)


def conform(wire, *options):
    p = harness.Proc([wire.rocemu.config.rocemu, 'conform', '--from', vm.HOST_V4, *options, vm.GUEST_V4], name='rocemu conform')
    if p.wait(GUARD_S):
        raise harness.Failure(p.report())
    return p.stdout


def run(wire):
    started = []
    try:
        for program in servers(wire):
            started.append(program)
        out = conform(wire, '--known', 'rxe-6.1')
        like = conform(wire, '--identify')
    finally:
        for program in started:
            end(program)
    sums = SUMS.findall(out)
    if not sums or 'inconclusive' in sums[-1]:
        raise harness.Failure(out)
    if 'behaves like rxe-6.1' not in like:
        raise harness.Failure(like)
    return f'{sums[-1]}; {like.splitlines()[0]}'
