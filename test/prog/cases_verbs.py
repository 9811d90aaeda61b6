# SPDX-License-Identifier: BSD-2-Clause
"""Scenarios that check every byte, in two processes (test/scenario/verbs-*.scenario): over every transport, topology, data
path and way of completion, and over RC while packets are lost, duplicated, reordered and corrupted on purpose."""
import scenario_pair
from harness import FULL, NORMAL, QUICK, Case, Lab

POST, WR = (), ('--wr', '--cq-ex')
MODES = {
    'post.poll': POST,
    'post.events': (*POST, '--events'),
    'wr.poll': WR,
    'wr.events': (*WR, '--events'),
}
KILLED = (-9, 137)
# What fits the areas that other cases have is left out. The longest message is 2 GiB - 1.
SHORT = ('0', '1', '2', '3', '4', '5', '64', 'path_mtu-1', 'path_mtu', 'path_mtu+1', '2*path_mtu-1', '3*path_mtu+2', '65536', '1048576')
BIG = [x for length in SHORT for x in ('--without', f'LEN={length}')]
HUGE = ('--with', 'LEN=2147483647', '--with', 'X=a', '--only', '@(send|read|write_imm):*')
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


def verbs(name, where, transport, group, ways, level=NORMAL, options=(), mtu=None, impair=None, kill=False, area=None, timeout=120):
    def check(config, lab):
        topo = lab.get(where)
        topo.check()
        # A busy machine lets a process wait for a second: more than eight times the usual 67 ms. Where packets are
        # lost on purpose that would have to be waited for again and again. The thread sanitizer spends much time on
        # each payload that is excluded from its report, so long messages are left out.
        text = scenario_pair.text_options(topo, transport, mtu, 16 if impair else 18,
                                          area or (132000 if config.sanitize == 'thread' else scenario_pair.AREA))
        run_options = ('--impair', impair) if impair else ()
        files = (f'verbs-{group}', 'verbs-killed') if kill else (f'verbs-{group}',)
        return scenario_pair.carry_out(config, topo, files, ways, [*text, *options],
                                       server_options=run_options, client_options=run_options,
                                       expect_server=KILLED if kill else (0,), timeout=timeout)

    return Case(name, check, level)


def cases():
    result = []

    def add(group, transport, where, mode, level, suffix='', **more):
        name = f'verbs/{group}.{transport}/{where}/{mode}{suffix}'
        result.append(verbs(name, where, transport, group, MODES[mode], level, **more))

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
            add('ops', transport, 'lo', 'post.poll', level, f'.mtu{mtu}', mtu=mtu)
        add('errors', transport, 'lo', 'post.poll', QUICK, kill=transport == 'rc')
        add('errors', transport, 'lo', 'wr.events', NORMAL)
        add('errors', transport, 'veth1500-v4', 'post.poll', NORMAL)
        for group in ('ops', 'flow', 'errors'):
            add(group, transport, 'lo', 'post.events', NORMAL, '.srq', options=('--set', 'srq=1'))
    for where in Lab.NAMES:
        for mode in MODES:
            in_ci = where == 'lo' or mode == 'wr.poll'
            for group in ('ops', 'flow'):
                add(group, 'xrc', where, mode, NORMAL if in_ci else FULL)
    add('ops', 'xrc', 'lo', 'post.poll', NORMAL, '.mtu256', mtu=256)
    add('errors', 'xrc', 'lo', 'post.poll', QUICK)
    add('errors', 'xrc', 'lo', 'wr.events', NORMAL)
    add('flow', 'xrc', 'lo', 'post.poll', FULL, '.all', impair=IMPAIRMENTS['all'])
    add('ops', 'rc', 'lo', 'post.poll', NORMAL, '.big', options=BIG, area=16 << 20 | 4096)
    add('ops', 'rc', 'lo', 'post.poll', FULL, '.huge', options=HUGE, area=2 << 30 | 4096, timeout=600)
    for name, spec in IMPAIRMENTS.items():
        level = QUICK if name == 'all' else NORMAL
        add('flow', 'rc', 'lo', 'post.poll', level, f'.{name}', impair=spec)
        add('ops', 'rc', 'lo', 'wr.events', NORMAL if name in ('loss', 'all') else FULL, f'.{name}', impair=spec)
    add('flow', 'rc', 'veth1500-v6', 'wr.poll', NORMAL, '.all', impair=IMPAIRMENTS['all'])
    return result
