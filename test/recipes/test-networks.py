#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The statements of docs/networks.md on firewalls, MTUs, NAT, routers and buffers: programs between hosts
that are network namespaces, and the messages that one gets where the network is in the way.

    test-networks.py BUILD [PART-OF-NAME]
"""
import os
import re
import signal
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import networks_lab as lab  # noqa: E402 # pylint: disable=wrong-import-position

PAGE = os.path.join(HERE, '..', '..', 'docs', 'networks.md')
PERFTEST_PORT = 18515
# perftest's timeout for packets that come, on a machine that others use (1 s, eight times), and for
# those that never come (17 ms).
PATIENT, BRIEF = ('-u', '18'), ('-u', '12')
MASQUERADE = '''table ip nat {
	chain postrouting {
		type nat hook postrouting priority 100
		oifname "eth1" masquerade
	}
}
'''


def chain(hook, *rules):
    """An nft table with one filtering chain."""
    return '\n'.join(['table inet test {', 'chain c {', f'type filter hook {hook} priority 0',
                      *rules, '}', '}', ''])


def rocemu(*options):
    return [ROCEMU, 'run', '--log', 'why', *options, '--']


def whys(proc):
    return [line for line in proc.stderr.splitlines() if line.startswith('rocemu: why: ')]


def said(proc, pattern):
    """One line of the reasons has it; the line."""
    hits = [line for line in whys(proc) if re.search(pattern, line)]
    assert len(hits) == 1, f'{len(hits)} reasons with "{pattern}"\n{proc.report()}'
    return hits[0]


def pair(server, client, to, argv, options=(), env=None, port=PERFTEST_PORT):
    """A program's server on one host, its client on another; both when the client has ended."""
    s = server.start([*rocemu(*options), *argv], 'server', env)
    s.wait_listening(port)
    c = client.start([*rocemu(*options), *argv, to], 'client', env)
    c.wait()
    return s, c


def works(server, client, to, argv, **more):
    s, c = pair(server, client, to, argv, **more)
    assert c.popen.returncode == 0 and s.wait() == 0, c.report() + s.report()
    return s, c


def fails(server, client, to, argv, **more):
    """The client's request has no answer in time."""
    s, c = pair(server, client, to, argv, **more)
    assert c.popen.returncode != 0, c.report()
    assert re.search(r'Failed status 12|retry counter exceeded', c.output), c.report()
    return s, c


def agent_status(host):
    return host.run('sh', '-c', f'{ROCEMU} agent --status || true')


def listen(host, argv, port=7174):
    """A server that is reached by rdma_cm (RDMA_PS_TCP)."""
    s = host.start([*rocemu(), *argv], 'server')
    s.wait_until(lambda: f'0106{port:04x} ' in agent_status(host), 'it listened')
    return s


def connects(server, client, to):
    s = listen(server, ['rping', '-s', '-a', to, '-C', '3'])
    c = client.start([*rocemu(), 'rping', '-c', '-v', '-a', to, '-C', '3'], 'client')
    c.wait()
    assert c.stdout.count('ping data: ') == 3, c.report() + s.report()


def block(kind, heading):
    """The first block of a kind below a heading of the page."""
    with open(PAGE, encoding='utf-8') as f:
        text = f.read().split(f'\n## {heading}\n')[1]
    return re.search(rf'^```{kind}.*?\n(.*?)^```$', text, re.M | re.S)[1]


WRITE = ['ib_write_bw', '-F', '-n', '20', *PATIENT]
LOST = ['ib_write_bw', '-F', '-n', '20', *BRIEF]


# ---- firewalls -------------------------------------------------------------------------------------------

def firewall__page_s_rules__all_works(net):
    a, b = net.pair()
    rules = block('nft', 'Firewalls')
    for host in (a, b):
        host.firewall(rules)
    works(a, b, '10.0.0.1', WRITE)
    connects(a, b, '10.0.0.1')
    # They do close what they do not name.
    b.firewall(rules.replace('udp dport 4791 accept', ''))
    fails(a, b, '10.0.0.1', LOST)


def firewall__drops_4791_in__never_answered(net):
    a, b = net.pair()
    a.firewall(chain('input', 'udp dport 4791 drop'))
    _, c = fails(a, b, '10.0.0.1', LOST)
    line = said(c, r'\[0x101\]$')
    assert '10.0.0.1' in line and 'never answered' in line and 'firewall' in line, line


def firewall__lets_replies_in_only__never_answered(net):
    """Packets of the other direction are no replies: they have source ports of their own."""
    a, b = net.pair()
    b.firewall(chain('input', 'ct state established,related accept', 'udp dport 4791 drop'))
    _, c = fails(a, b, '10.0.0.1', LOST)
    said(c, r'never answered.*\[0x101\]$')


def firewall__drops_4791_out__operation_not_permitted(net):
    a, b = net.pair()
    b.firewall(chain('output', 'udp dport 4791 drop'))
    _, c = fails(a, b, '10.0.0.1', LOST)
    said(c, r'rocemu_eth0: packets to 10.0.0.1 are not sent: Operation not permitted: .*firewall')


def firewall__drops_4791_in__stat_dump_says_who_is_silent(net):
    a, b = net.pair()
    a.firewall(chain('input', 'udp dport 4791 drop'))
    with tempfile.TemporaryDirectory(prefix='rocemu-networks-') as where:
        env = {'ROCEMU_STAT': where}
        s = a.start([*rocemu(), 'ib_write_bw', '-F', '-n', '20'], 'server')
        s.wait_listening(PERFTEST_PORT)
        c = b.start([*rocemu(), 'ib_write_bw', '-F', '-n', '20', '-u', '22', '10.0.0.1'], 'client',
                    env)
        dump = ''
        while not re.search(r'waits for the peer.s answer to PSN \d+, which has been silent; '
                            r'\d+ probes were not answered', dump):
            assert c.running(), c.report() + dump
            dump = b.run('sh', '-c', f'ROCEMU_STAT={where} {ROCEMU} stat --dump {c.pid} || true')


def firewall__drops_4791_in__rdma_cm_unreachable(net):
    a, b = net.pair()
    a.firewall(chain('input', 'udp dport 4791 drop'))
    c = b.start([*rocemu('--time-scale', '1000'), 'rping', '-c', '-a', '10.0.0.1', '-C', '1'],
                'client')
    c.wait()
    said(c, r'connection to 10.0.0.1 port 7174: UNREACHABLE, status -110 .*firewall.*NAT')


# ---- MTU -------------------------------------------------------------------------------------------------

def mtu__of_the_interface__decides_the_active_one(net):
    a, _ = net.pair()
    rows = re.findall(r'^\| (\d+) +\|.*\| (\d+) +\|$', block_table('MTU'), re.M)
    assert len(rows) > 5, rows
    for interface, active in rows:
        a.run('ip', 'link', 'set', 'eth0', 'mtu', interface)
        text = a.run(ROCEMU, 'run', '--', 'ibv_devinfo')
        assert re.search(rf'active_mtu:\s+{active} ', text), f'MTU {interface}: {text}'


def block_table(heading):
    with open(PAGE, encoding='utf-8') as f:
        return f.read().split(f'\n## {heading}\n')[1].split('\n## ')[0]


def mtu__of_a_vpn__works(net):
    for mtu in (1420, 1280):
        a, b = net.pair(mtu)
        works(a, b, '10.0.0.1', [*WRITE, '-s', '1000000'])
        connects(a, b, '10.0.0.1')


def small_middle(net):
    """Hosts with MTU 9000, and a link of 1500 in the middle."""
    a, b, router = net.routed((9000, 9000))
    router.run('ip', 'link', 'set', 'eth1', 'mtu', '1500')
    return a, b, router


def mtu__smaller_on_the_way__message_says_which_fits(net):
    a, b, _ = small_middle(net)
    _, c = fails(a, b, '10.1.0.2', LOST)
    said(c, r'packets to 10.1.0.2 are not sent: Message too long: the MTU on the way there is 1500, '
            r'.*path MTU 1024 at most')


def mtu__smaller_on_the_way__works_with_the_one_that_fits(net):
    a, b, _ = small_middle(net)
    works(a, b, '10.1.0.2', [*WRITE, '-m', '1024'])


def mtu__smaller_on_the_way_and_icmp_dropped__message_names_it(net):
    a, b, router = small_middle(net)
    router.firewall(chain('output', 'meta l4proto icmp drop'))
    _, c = fails(a, b, '10.1.0.2', LOST)
    said(c, r'never answered: .*packets of path MTU 4096 pass.*\[0x101\]$')


def mtu__smaller_at_the_peer__taken_by_tcp_rejected_by_rdma_cm(net):
    a, b = net.pair(9000)
    a.run('ip', 'link', 'set', 'eth0', 'mtu', '1500')
    _, c = works(a, b, '10.0.0.1', WRITE)
    assert re.search(r'Mtu +: 1024\[B\]', c.stdout), c.report()
    s = listen(a, [*WRITE, '-R'], PERFTEST_PORT)
    c = b.start([*rocemu(), *WRITE, '-R', '10.0.0.1'], 'client')
    c.wait()
    said(c, r'connection to 10.0.0.1 port 18515: REJ received, reason 28 ')
    said(s, r'path_mtu \(an enum ibv_mtu\) is 5: it is 1 to 3: .*\[0x1c5\]$')


# ---- NAT, routers ----------------------------------------------------------------------------------------

def behind_nat(net):
    a, b, router = net.routed()
    a.run('ip', 'route', 'del', 'default')
    router.firewall(MASQUERADE)
    return a, b


def nat__between__icrc_wrong_and_never_answered(net):
    a, b = behind_nat(net)
    s, c = fails(a, b, '10.1.0.2', LOST)
    said(c, r'never answered: .*no NAT.*\[0x101\]$')
    said(s, r'packet dropped: .* from 10.1.0.1 has a wrong ICRC: .*addresses.*NAT.*\[0x186\]$')


def nat__between__no_route_to_who_is_behind(net):
    """The address that the peer sent by TCP."""
    a, b = behind_nat(net)
    s, _ = fails(a, b, '10.1.0.2', [*LOST, '-b'])
    said(s, r'packets to 10.2.0.2 are not sent: Network is unreachable: .*route.*NAT')


def nat__between__rdma_cm_unreachable_and_counted(net):
    a, b = behind_nat(net)
    listen(a, ['rping', '-s', '-a', '10.1.0.2', '-C', '1'])
    c = b.start([*rocemu('--time-scale', '1000'), 'rping', '-c', '-a', '10.1.0.2', '-C', '1'],
                'client')
    c.wait()
    said(c, r'UNREACHABLE, status -110 .*NAT')
    status = agent_status(a)
    assert re.search(r'^ *[1-9]\d* dropped: wrong ICRC$', status, re.M), status


def router__hop_limit_1__never_answered(net):
    """The stock pingpongs set hop_limit to 1; perftest does not."""
    a, b, _ = net.routed()
    _, c = fails(a, b, '10.1.0.2', ['ibv_rc_pingpong', '-g', '0'])
    said(c, r'never answered: .*hop_limit 1 reaches.*\[0x101\]$')
    works(a, b, '10.1.0.2', WRITE)


# ---- buffers, sizes, wireless ----------------------------------------------------------------------------

def buffers__stock__rc_completes_all(net):
    a, b = net.pair()
    works(a, b, '10.0.0.1', [*WRITE, '-n', '500', '-s', '65536'],
          env={'ROCEMU_AGENT': 'off', 'LD_PRELOAD': STOCK_BUFFERS})


def buffers__full_under_ud__drops_are_counted(net):
    """The receiver is stopped while its buffer fills."""
    a, b = net.pair()
    with tempfile.TemporaryDirectory(prefix='rocemu-networks-') as where:
        env = {'ROCEMU_AGENT': 'off', 'LD_PRELOAD': STOCK_BUFFERS, 'ROCEMU_STAT': where}
        argv = ['ib_send_bw', '-F', '-c', 'UD', '-D', '60', '-s', '1024']
        s = a.start([*rocemu(), *argv], 'server', env)
        s.wait_listening(PERFTEST_PORT)
        c = b.start([*rocemu(), *argv, '10.0.0.1'], 'client', {**env, 'ROCEMU_STAT': where})

        def stat(words):
            return a.run('sh', '-c', f'ROCEMU_STAT={where} {ROCEMU} stat {words} --pid {s.pid} || true')
        s.wait_until(lambda: c.running() and re.search(r'"rx_packets": [1-9]', stat('--json')),
                     'it received')
        s.signal(signal.SIGSTOP)
        s.wait_until(lambda: re.search(r' [1-9]\d* *$', a.run('cat', '/proc/net/udp'), re.M),
                     'the kernel dropped datagrams')
        s.signal(signal.SIGCONT)
        s.wait_until(lambda: re.search(r'"rx_sock_drops": [1-9]', stat('--json')),
                     'the drops were counted')


def huge__messages_of_32_MiB__pass_a_vpn(net):
    a, b = net.pair(1280)
    works(a, b, '10.0.0.1', [*WRITE, '-n', '5', '-s', '33554432'])


def wireless__slow_and_lossy__completes(net):
    a, b = net.pair()
    works(a, b, '10.0.0.1', [*WRITE, '-s', '65536'],
          options=('--impair', 'rate=100Mbit,delay=1ms..10ms,loss=1%,seed=4'))


CASES = [v for k, v in list(globals().items()) if '__' in k and callable(v)]
ROCEMU = STOCK_BUFFERS = None


def main():
    global ROCEMU, STOCK_BUFFERS  # pylint: disable=global-statement
    build, part = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ''
    ROCEMU = os.path.join(build, 'tools', 'rocemu')
    STOCK_BUFFERS = os.path.join(build, 'test', 'prog', 'libstock-buffers.so')
    lab.enter_namespace()
    lab.need('nft', 'ib_write_bw', 'rping', 'ibv_devinfo')
    if lab.why_no_firewalls():
        lab.netns.skip(lab.why_no_firewalls())
    failed = 0
    for case in CASES:
        if part not in case.__name__:
            continue
        begin = time.monotonic()
        try:
            with lab.Lab() as net:
                case(net)
            print(f'ok      {case.__name__}, {time.monotonic() - begin:.1f} s', flush=True)
        except Exception:  # pylint: disable=broad-except # each case is reported
            failed += 1
            print(f'FAILED  {case.__name__}', flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
