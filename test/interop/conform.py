# SPDX-License-Identifier: BSD-2-Clause
"""rocemu conform against rxe in the guest: each difference is one of those that the program knows of rxe."""
import re
import signal

import guest as vm
import harness
import peers

GROUP = 'Conformance'      # no table of docs/interop.md
GUARD_S = 600
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
    if program.running():
        program.guest.send(id=program.order, kill=int(signal.SIGTERM))
        program.wait()


def run(wire, options=('--known', 'rxe-6.1')):
    started = []
    try:
        for program in servers(wire):
            started.append(program)
        p = harness.Proc([wire.rocemu.config.rocemu, 'conform', '--from', vm.HOST_V4, *options, vm.GUEST_V4], name='rocemu conform')
        code = p.wait(GUARD_S)
    finally:
        for program in started:
            end(program)
    sums = SUMS.findall(p.stdout)
    if code or not sums or 'inconclusive' in sums[-1]:
        raise harness.Failure(f'rocemu conform returned {code}\n{p.output}')
    return sums[-1]
