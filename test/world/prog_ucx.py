# SPDX-License-Identifier: BSD-2-Clause
"""UCX: its benchmark of each kind of call, over its RC and UD transports. (test/prog has tag_lat.)"""
import harness
from harness import new_port
from program import Program, Run, World, ended_together

TRANSPORTS = {'rc': 'rc_verbs,ud_verbs:aux,self', 'ud': 'ud_verbs,self'}
TESTS = ('tag_bw', 'stream_bw', 'ucp_am_bw', 'ucp_put_bw', 'ucp_get', 'ucp_fadd', 'ucp_cswap')
UD_TESTS = ('tag_bw', 'ucp_am_bw', 'ucp_put_bw')
SIZES = {'ucp_fadd': 8, 'ucp_cswap': 8}


def start_with_all_devices(world, side, argv, name, env):
    return world.plain(side, [world.config.rocemu, 'run', '--', *argv], name, {**harness.sanitizer_env(world.config), **env})


def perftest(transport, tests=TESTS, size=20000, all_devices=False):
    def run(world):
        for test in tests:
            port = new_port()
            env = {'UCX_TLS': TRANSPORTS[transport]}
            start = start_with_all_devices
            if not all_devices:
                env['UCX_NET_DEVICES'] = f'{world.server.name}:1'
                start = World.start
            server = start(world, world.server, ['ucx_perftest', '-p', port], f'server of {test}', env=env)
            server.wait_listening(port)
            client = start(world, world.client, ['ucx_perftest', world.server.tcp, '-p', port, '-t', test, '-w', 10, '-n', 100,
                                                 '-s', SIZES.get(test, size)], f'client of {test}', env=env)
            ended_together([client], r'^Final: ')
            server.wait()
        return f'{len(tests)} tests'
    return run


PROGRAMS = [Program('UCX', [
    Run(f'ucx_perftest {" ".join(TESTS)} over rc_verbs', perftest('rc')),
    Run(f'ucx_perftest {" ".join(UD_TESTS)} over ud_verbs', perftest('ud', UD_TESTS)),
    Run('ucx_perftest tag_bw, messages of 1 MB (rendezvous)', perftest('rc', ('tag_bw',), size=1000000)),
    # Rendezvous takes every device that is active: a loopback device of each host would be paired with the other's.
    Run('ucx_perftest tag_bw, messages of 1 MB, devices as they are by default', perftest('rc', ('tag_bw',), 1000000, all_devices=True),
        places=('veth',), needs='`UCX_TLS`'),
], packages=('ucx-utils',), commands=('ucx_perftest',), needs='`UCX_TLS`, `UCX_NET_DEVICES`')]
