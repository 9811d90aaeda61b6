# SPDX-License-Identifier: BSD-2-Clause
"""UCX: its benchmark of each kind of call, over its RC and UD transports. (test/prog has tag_lat.)"""
from harness import new_port
from program import Program, Run, ended_together

TRANSPORTS = {'rc': 'rc_verbs,ud_verbs:aux,self', 'ud': 'ud_verbs,self'}
TESTS = ('tag_bw', 'stream_bw', 'ucp_am_bw', 'ucp_put_bw', 'ucp_get', 'ucp_fadd', 'ucp_cswap')
UD_TESTS = ('tag_bw', 'ucp_am_bw', 'ucp_put_bw')
SIZES = {'ucp_fadd': 8, 'ucp_cswap': 8}


def perftest(transport, tests=TESTS, size=20000):
    def run(world):
        for test in tests:
            port = new_port()
            env = {'UCX_TLS': TRANSPORTS[transport], 'UCX_NET_DEVICES': f'{world.server.name}:1'}
            server = world.start(world.server, ['ucx_perftest', '-p', port], f'server of {test}', env)
            server.wait_listening(port)
            client = world.start(world.client, ['ucx_perftest', world.server.tcp, '-p', port, '-t', test, '-w', 10, '-n', 100,
                                                '-s', SIZES.get(test, size)], f'client of {test}', env)
            ended_together([client], r'^Final: ')
            server.wait()
        return f'{len(tests)} tests'
    return run


PROGRAMS = [Program('UCX', [
    Run(f'ucx_perftest {" ".join(TESTS)} over rc_verbs', perftest('rc')),
    Run(f'ucx_perftest {" ".join(UD_TESTS)} over ud_verbs', perftest('ud', UD_TESTS)),
    Run('ucx_perftest tag_bw, messages of 1 MB (rendezvous)', perftest('rc', ('tag_bw',), size=1000000)),
], packages=('ucx-utils',), commands=('ucx_perftest',), needs='`UCX_TLS`, `UCX_NET_DEVICES`')]
