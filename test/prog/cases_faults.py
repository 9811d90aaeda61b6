# SPDX-License-Identifier: BSD-2-Clause
"""Faults on purpose as programs see them, and time scales."""
import os
import re
import shlex
import signal
import time

from cases_robust import Traffic, datagrams_sent
from harness import NORMAL, QUICK, Case, Failure, Proc, expect, new_port, sanitizer_env, start

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


def rdma_connect_fails(config, lab):
    """The rules are libibverbs', the call is librdmacm's; no listener is needed."""
    topo = lab.get('lo')
    rule = 'fail verb=rdma_connect errno=ENETUNREACH'
    client = start(config, topo.client, ['rdma_client', '-s', topo.server.address, '-p', new_port()], 'client',
                   options=['--impair', rule])
    try:
        expect(client.wait() != 0, 'rdma_client did not fail', client)
        expect('rdma_connect: Network is unreachable' in client.output, 'another reason', client)
        expect(f'{rule}: acted on 1 of 1 matching calls' in client.output, 'no summary', client)
    finally:
        client.kill()


# ---- docs/faults.md ----------------------------------------------------------------------------------------

DOC = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs', 'faults.md')
EXAMPLE = re.compile(r'^### (.*?)\n.*?```sh\n(.*?)```\n\n```output\n(.*?)```', re.S | re.M)
EXAMPLES = 5


def examples():
    """(title, commands, lines of the outcome) of each example."""
    with open(DOC, encoding='utf-8') as f:
        found = EXAMPLE.findall(f.read())
    if len(found) != EXAMPLES:
        raise Failure(f'{DOC} has {len(found)} examples')
    return [(title, commands.splitlines(), outcome.splitlines()) for title, commands, outcome in found]


def words_of(config, command, port):
    """A command of the document, with a port of its own."""
    words = shlex.split(command.rstrip('& '))
    expect(words[:2] == ['rocemu', 'run'], f'{DOC}: {command}')
    return [config.rocemu] + words[1:] + ['-p', str(port)]


def has_line(text, pattern):
    wanted = re.compile('.*'.join(re.escape(part) for part in pattern.split('*')))
    return any(wanted.fullmatch(line.strip()) for line in text.splitlines())


def check_outcome(outcome, procs):
    for line in outcome:
        m = re.fullmatch(r'(client|server)(?:: (.*)| exits with (\d+))', line)
        expect(m, f'{DOC}: what does "{line}" mean?')
        p = procs[m.group(1)]
        if m.group(2) is None:
            expect(p.wait() == int(m.group(3)), f'not "{line}"', *procs.values())
        else:
            p.wait()
            expect(has_line(p.output, m.group(2)), f'not "{line}"', *procs.values())


def example(number):
    def check(config, _lab):
        title, commands, outcome = examples()[number]
        port = new_port()
        procs = {}
        try:
            for command in commands:
                name = 'server' if command.endswith('&') else 'client'
                procs[name] = Proc(words_of(config, command, port), env=sanitizer_env(config), name=name)
                if name == 'server':
                    procs[name].wait_listening(port)
            check_outcome(outcome, procs)
        finally:
            for p in procs.values():
                p.kill()
        return title
    return check


def cases():
    def alone(name, function, level=NORMAL):
        return Case(f'faults/{name}', function, level, alone=True)

    return [
        alone('time_scale_stopped', stopped_peer_lives, NORMAL),
        alone('time_scale_timeout', timeout_comes_soon, QUICK),
        alone('rdma_connect', rdma_connect_fails),
    ] + [alone(f'example{number + 1}', example(number), QUICK) for number in range(EXAMPLES)]
