# SPDX-License-Identifier: BSD-2-Clause
"""Programs that connect by rdma_cm, and whose interface or address goes while they run: they end,
and print the reason if they check events."""
import json
import re
import subprocess

from cases_cm import Session, established, is_member, of_server
from cases_network import on_veth, sides
from harness import NORMAL, Case, expect

# Each packet of connection management and of data so late, so that all of them happen while they are under way.
LATE = ('--impair', 'delay=1s..1s')

# The output of rping, whose exit code depends on what it waited for.
END = 'device removal|DISCONNECT'


def remove(veth):
    """Both ends are gone with one."""
    veth.ip('-n', veth.names[0], 'link', 'delete', 'veth0')


def ended(*procs, text=None):
    """All end by themselves, with this in what they print."""
    for p in procs:
        p.wait()
        expect(p.popen.returncode >= 0, 'killed by a signal', *procs)
        expect(not text or re.search(text, p.output), f'{p.name} did not say "{text}"', *procs)


def has_accepted(config, proc):
    """Its connection's QP is in RTS, which is so just before the REP is sent."""
    p = subprocess.run([config.rocemu, 'stat', '--json', '--pid', str(proc.pid)], capture_output=True, text=True, check=False)
    processes = json.loads(p.stdout)['processes'] if p.returncode == 0 else []
    return any(q['state'] == 'RTS' for process in processes for d in process['devices'] for q in d['qps'])


def rping(config, veth):
    for addresses in (veth.v4, veth.v6):
        with Session(config, sides(veth, addresses)) as s:
            srv = s.server(['rping', '-p', '{port}', '-s', '-a', '{server}'])
            cli = s.client(['rping', '-p', '{port}', '-c', '-a', '{server}'])
            cli.wait_until(lambda s=s: established(s, 1), 'they were connected')
            remove(veth)
            ended(srv, cli, text=END)
        veth.make()


def rping_again(config, veth):
    """A persistent server gets the event: it ends, or its connection does. What comes first depends on its two threads, one
    of which gives the connection's ID back, as with the kernel's. With the interface there again all can be started
    again, on the same port."""
    with Session(config, sides(veth, veth.v4)) as s:
        for _ in range(2):
            srv = s.server(['rping', '-p', '{port}', '-s', '-P', '-a', '0.0.0.0'])
            cli = s.client(['rping', '-p', '{port}', '-c', '-a', '{server}'], 'client')
            cli.wait_until(lambda: established(s, 1, srv), 'they were connected')  # pylint: disable=cell-var-from-loop
            remove(veth)
            ended(cli, text=END)
            srv.wait_until(lambda: not srv.running() or re.search(END, srv.output), 'it heard of the removal')  # pylint: disable=cell-var-from-loop
            expect(re.search(END + '|UNREACHABLE', srv.output), 'did not hear of the removal', srv)
            srv.kill()
            veth.make()


def rping_address(config, veth):
    """The client's address is deleted. The side with a request under way ends by its timeout; the
    other one, which may only wait for a message, detects it when the address is back."""
    with Session(config, sides(veth, veth.v4)) as s:
        srv = s.server(['rping', '-p', '{port}', '-s', '-a', '{server}'])
        cli = s.client(['rping', '-p', '{port}', '-c', '-a', '{server}'])
        cli.wait_until(lambda: established(s, 1), 'they were connected')
        change = ('-n', veth.names[1], 'address', '{}', veth.v4[1] + '/24', 'dev', 'veth0')
        veth.ip(*(a.format('del') for a in change))
        cli.wait_until(lambda: not cli.running() or not srv.running(), 'one of them ended')
        expect(re.search(r'status 12|status 5', cli.output + srv.output), 'not told that the peer is silent', cli, srv)
        expect('ADDR_CHANGE' in cli.output, 'not told of the address', cli)
        veth.ip(*(a.format('add') for a in change))
        ended(cli, srv, text='DISCONNECT|status 12|status 5')


def ucmatose(config, veth):
    with Session(config, sides(veth, veth.v4)) as s:
        srv = s.server(['ucmatose', '-p', '{port}', '-b', '{server}'], options=LATE)
        cli = s.client(['ucmatose', '-p', '{port}', '-s', '{server}'], options=LATE)
        srv.wait_until(lambda: established(s, 1), 'they were connected')
        remove(veth)
        # It counts completions, whatever their status.
        ended(srv, cli)


def ucmatose_connecting(config, veth):
    with Session(config, sides(veth, veth.v4)) as s:
        srv = s.server(['ucmatose', '-p', '{port}', '-b', '{server}'], options=LATE)
        cli = s.client(['ucmatose', '-p', '{port}', '-s', '{server}'], options=LATE)
        srv.wait_until(lambda: has_accepted(config, srv), 'it accepted the request')
        remove(veth)
        ended(srv, cli, text='UNREACHABLE, error: -19')


def udaddy(config, veth):
    with Session(config, sides(veth, veth.v4), port=7174) as s:
        srv = s.server(['udaddy', '-b', '{server}'], 'udp', options=LATE)
        cli = s.client(['udaddy', '-s', '{server}'], options=LATE)
        srv.wait_until(lambda: of_server(s, 'delivered') >= 1, 'it was asked')
        remove(veth)
        ended(cli, text='UNREACHABLE, error: -19')
        ended(srv)


def mckey(config, veth):
    with Session(config, sides(veth, veth.v4)) as s:
        receiver = s.start(s.topo.server, ['mckey', '-m', '239.1.2.9', '-b', '{server}'], 'receiver')
        receiver.wait_until(lambda: is_member(s.topo.server, '239.1.2.9'), 'it joined')
        remove(veth)
        ended(receiver)


def cases():
    return [Case(f'events/{name}', on_veth(check), NORMAL, needs=(name.split('.', maxsplit=1)[0],))
            for name, check in (('rping.removed', rping), ('rping.persistent', rping_again),
                                ('rping.address', rping_address), ('ucmatose.removed', ucmatose),
                                ('ucmatose.connecting', ucmatose_connecting), ('udaddy.removed', udaddy),
                                ('mckey.removed', mckey))]
