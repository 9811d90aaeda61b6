# SPDX-License-Identifier: BSD-2-Clause
"""Faults on purpose as programs see them, and time scales."""
import os
import signal
import time

from cases_robust import Traffic, datagrams_sent
from harness import NORMAL, QUICK, Case, expect, new_port, start

STOPPED_S = 3                         # much more than 7 retries of ibv_rc_pingpong's timeout 14 take (0.54 s)
TIMEOUT_18_S = 8 * 4.096e-6 * 2**18   # 7 retries, without a time scale


def stopped_peer_lives(config, lab):
    """As at a breakpoint: nothing of the process runs, and its peer waits."""
    with Traffic(config, lab.get('lo'), env={'ROCEMU_TIME_SCALE': '0.01'}) as t:
        for p in t.server.family():
            os.kill(p, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        for p in t.server.family():
            os.kill(p, signal.SIGCONT)
        before = datagrams_sent()
        t.client.wait_until(lambda: datagrams_sent() - before > 500, 'traffic went on')


def timeout_comes_soon(config, lab):
    """A peer that is gone: retry_cnt 7 and timeout 18 a hundred times sooner."""
    topo = lab.get('lo')
    port = new_port()
    argv = ['ib_write_bw', '-d', topo.server.name, '-x', 0, '-F', '-p', port, '-u', 18, '-D', 60]
    options = ['--time-scale', '100']
    server = start(config, topo.server, argv, 'server', options=options)
    client = None
    try:
        server.wait_listening(port)
        before = datagrams_sent()
        client = start(config, topo.client, argv + [topo.server.tcp], 'client', options=options)
        client.wait_until(lambda: datagrams_sent() - before > 500, 'traffic flowed')
        server.kill()
        begin = time.monotonic()
        code = client.wait()
        took = time.monotonic() - begin
        expect(code != 0, 'the client did not notice', client)
        expect('status 12' in client.output.lower(), 'not "transport retry counter exceeded" (12)', client)
        expect(took < TIMEOUT_18_S * 0.6, f'it took {took:.1f} s', client)
    finally:
        for p in (server, client):
            if p is not None:
                p.kill()
    return f'{took:.2f} s'


def cases():
    def alone(name, function, level=NORMAL):
        return Case(f'faults/{name}', function, level, alone=True)

    return [
        alone('time_scale_stopped', stopped_peer_lives, QUICK),
        alone('time_scale_timeout', timeout_comes_soon, QUICK),
    ]
