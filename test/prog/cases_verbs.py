# SPDX-License-Identifier: BSD-2-Clause
"""verbs-check, which checks every byte: over every transport, topology, data path and way of
completion, and over RC while packets are lost, duplicated, reordered and corrupted on purpose."""
import re

from harness import FULL, NORMAL, QUICK, Case, Lab, expect, pair

POST, WR = (), ('--wr', '--cq-ex')
MODES = {
    'post.poll': POST,
    'post.events': (*POST, '--events'),
    'wr.poll': WR,
    'wr.events': (*WR, '--events'),
}
KILLED = (-9, 137)
IMPAIRMENTS = {
    'loss': 'loss=1%,seed=1',
    'dup': 'dup=2%,seed=2',
    'reorder': 'reorder=2%,seed=3',
    'corrupt': 'corrupt=1%,seed=4',
    'delay': 'delay=10us..500us,seed=5',
    'rnr': 'rnr=20%,seed=7',
    'flap': 'flap=100ms..300ms/10ms..50ms,rnr=2%,seed=8',
    'all': 'loss=0.5%,dup=0.5%,reorder=0.5%,corrupt=0.5%,delay=1us..100us,seed=6',
}


def verbs_check(name, where, options, level=NORMAL, impair=None, env=None, kill=False, timeout=120):
    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        program = config.program('prog', 'verbs-check')
        # A busy machine lets a process wait for a second: more than eight times the usual 67 ms. Where packets are
        # lost on purpose that would have to be waited for again and again.
        patience = ['--timeout', 16 if impair else 18]
        if config.sanitize == 'thread':
            # It spends much time on each payload that is excluded from its report.
            patience += ['--max-size', 65536]
        argv = [[program, '--port', '{port}', '--device', side.name, '--address', side.address, *options, *patience]
                for side in (topo.server, topo.client)]
        run_options = ('--impair', impair) if impair else ()
        server, client = pair(config, topo, argv[0], argv[1] + ['{server}'], env=env,
                              server_options=run_options, client_options=run_options,
                              expect_server=KILLED if kill else (0,), timeout=timeout)
        expect('\nnot ok' not in '\n' + client.stdout, 'checks failed', client)
        plan = re.search(r'^1\.\.(\d+)$', client.stdout, re.M)
        expect(plan is not None, 'no plan line', client)
        passed = len(re.findall(r'^ok ', client.stdout, re.M))
        expect(passed == int(plan.group(1)) > 0, 'not all checks ran', client)
        return f'{passed} checks'

    return Case(name, check, level)


def cases():
    result = []

    def add(group, transport, where, mode, level, suffix='', extra=(), **more):
        name = f'verbs/{group}.{transport}/{where}/{mode}{suffix}'
        options = ('--type', transport, '--group', group, *MODES[mode], *extra)
        result.append(verbs_check(name, where, options, level, **more))

    for transport in ('rc', 'uc', 'ud'):
        for where in Lab.NAMES:
            for mode in MODES:
                if where == 'lo':
                    level = QUICK if mode in ('post.poll', 'wr.events') else NORMAL
                else:
                    level = NORMAL if mode in ('post.events', 'wr.poll') else FULL
                add('ops', transport, where, mode, level)
                add('flow', transport, where, mode, level)
        for mtu in (256, 512, 1024, 2048):
            level = NORMAL if transport == 'rc' or mtu == 256 else FULL
            add('ops', transport, 'lo', 'post.poll', level, f'.mtu{mtu}', ('--mtu', mtu))
        add('errors', transport, 'lo', 'post.poll', QUICK, extra=('--kill',) if transport == 'rc' else (),
            kill=transport == 'rc')
        add('errors', transport, 'lo', 'wr.events', NORMAL)
        add('errors', transport, 'veth1500-v4', 'post.poll', NORMAL)
        for group in ('ops', 'flow', 'errors'):
            add(group, transport, 'lo', 'post.events', NORMAL, '.srq', ('--srq',))
    for where in Lab.NAMES:
        for mode in MODES:
            in_ci = where == 'lo' or mode == 'wr.poll'
            for group in ('ops', 'flow'):
                add(group, 'xrc', where, mode, NORMAL if in_ci else FULL)
    add('ops', 'xrc', 'lo', 'post.poll', NORMAL, '.mtu256', ('--mtu', 256))
    add('errors', 'xrc', 'lo', 'post.poll', QUICK)
    add('errors', 'xrc', 'lo', 'wr.events', NORMAL)
    add('flow', 'xrc', 'lo', 'post.poll', FULL, '.all', impair=IMPAIRMENTS['all'])
    add('ops', 'rc', 'lo', 'post.poll', NORMAL, '.big', ('--big',))
    add('ops', 'rc', 'lo', 'post.poll', FULL, '.huge', ('--huge',), timeout=600)
    for name, spec in IMPAIRMENTS.items():
        level = QUICK if name == 'all' else NORMAL
        add('flow', 'rc', 'lo', 'post.poll', level, f'.{name}', impair=spec)
        add('ops', 'rc', 'lo', 'wr.events', NORMAL if name in ('loss', 'all') else FULL, f'.{name}', impair=spec)
    add('flow', 'rc', 'veth1500-v6', 'wr.poll', NORMAL, '.all', impair=IMPAIRMENTS['all'])
    return result
