# SPDX-License-Identifier: BSD-2-Clause
"""uDAPL: its dtest and dapltest over the provider that uses rdma_cm (ofa)."""
from harness import expect
from program import Program, Run, ended_together, finished

DTEST_PORT = 45248                    # fixed in dtest
DAPLTEST_PORT = 45279                 # and in dapltest


def environment(world):
    """The registry of providers names the interface. (The file that Debian installs names devices of others.)"""
    with open(world.path('dat.conf'), 'w', encoding='ascii') as f:
        f.write(f'cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{world.interface} 0" ""\n')
    return {'DAT_OVERRIDE': world.path('dat.conf')}


def dtest(*options):
    def run(world):
        env = environment(world)
        argv = ['dtest', '-P', 'cma', *options]
        server = world.start(world.server, argv + ['-s'], 'server', env)
        server.wait_until(lambda: 'waiting for client' in server.stdout, 'it waited for a client')
        client = world.start(world.client, argv + ['-h', world.server.address], 'client', env)
        ended_together([server, client], r'DAPL Test Complete. PASSED$')
    return run


def transactions(world):
    env = environment(world)
    server = world.start(world.server, ['dapltest', '-T', 'S', '-D', 'cma'], 'server', env)
    server.wait_until(lambda: 'Service Point Ready' in server.stdout, 'it was ready')
    head = ['-s', world.server.address, '-D', 'cma']
    work = ['client', 'SR', 256, 1, 'server', 'SR', 256, 1, 'client', 'RW', 4096, 1, 'server', 'RR', 4096, 1,
            'client', 'SR', 256, 1, 'server', 'SR', 256, 1]
    client = world.start(world.client, ['dapltest', '-T', 'T', *head, '-i', 100, '-t', 2, *work], 'client', env)
    finished(client, r'End of Work -- Client Exiting$')
    expect('2 threads, 1 EPs' in client.stdout and 'rror' not in client.stdout + client.stderr, 'no result', client, server)
    client = world.start(world.client, ['dapltest', '-T', 'Q', *head], 'client', env)
    finished(client, r'End of Work -- Client Exiting$')
    finished(server, r'Exiting\.$')


PROGRAMS = [Program('DAPL', [
    Run('dtest: writes, reads, messages, waiting for events', dtest('-b', 8192)),
    Run('dtest, polling', dtest('-b', 8192, '-p')),
    Run('dtest, consumer notification objects', dtest('-b', 4096, '-c')),
    Run('dapltest: 100 transactions of 2 threads', transactions),
], packages=('dapl2-utils', 'libdapl2'), commands=('dtest', 'dapltest'),
    needs='a `dat.conf` that names the interface (`DAT_OVERRIDE`); messages of dtest are 4 MiB unless `-b` sets less')]
