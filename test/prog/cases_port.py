# SPDX-License-Identifier: BSD-2-Clause
"""The interface and its addresses change while programs run: what ibv_asyncwatch prints, and that others go on."""
import re
import signal

from harness import NORMAL, Case, Side, Skip, VethPair, expect, may_make_netns, new_port, start


class Watch:
    """A stock ibv_asyncwatch, and the printed events that were not read yet."""

    def __init__(self, config, side):
        # Its output is a file, so it would be held back.
        self.proc = start(config, side, ['stdbuf', '-oL', 'ibv_asyncwatch', '-d', side.name], 'ibv_asyncwatch')
        self.seen = 0
        self.proc.wait_until(lambda: 'async event FD' in self.proc.stdout, 'it watched')

    def events(self):
        return re.findall(r'event_type (.*) \(\d+\), port 1', self.proc.stdout)

    def expect_changes(self):
        """The GID table has changed since the last call, and nothing else; perhaps by a link-local address, too, whose
        duplicate detection is through."""
        self.proc.wait_until(lambda: len(self.events()) > self.seen, 'an event came')
        came = self.events()[self.seen:]
        expect(set(came) == {'IBV_EVENT_GID_CHANGE'}, f'{came}', self.proc)
        self.seen += len(came)


def changes(config, _lab):
    why_not = may_make_netns()
    if why_not:
        raise Skip(why_not)
    veth = VethPair(1500)
    procs = []
    try:
        here, there = (Side('dev0=veth0', veth.v4[i], veth.names[i]) for i in (0, 1))
        watch = Watch(config, here)
        procs.append(watch.proc)
        port = new_port()
        argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', port, '-n', 200_000_000]
        server = start(config, here, argv, 'server')
        procs.append(server)
        server.wait_listening(port)
        client = start(config, there, argv + [here.address], 'client')
        procs.append(client)
        client.wait_until(lambda: 'remote address' in client.stdout or packets(veth) > 1000, 'traffic flowed')

        for address in ('10.98.0.1/24', '10.98.0.2/24', 'fd98::1/64'):
            nodad = ['nodad'] if ':' in address else []
            veth.ip('-n', veth.names[0], 'address', 'add', address, 'dev', 'veth0', *nodad)
            watch.expect_changes()
        # With the first of a network go its other addresses, too.
        veth.ip('-n', veth.names[0], 'address', 'del', '10.98.0.1/24', 'dev', 'veth0')
        watch.expect_changes()
        veth.ip('-n', veth.names[0], 'address', 'del', 'fd98::1/64', 'dev', 'veth0')
        watch.expect_changes()
        before = packets(veth)
        client.wait_until(lambda: packets(veth) > before + 1000, 'traffic went on')
        expect(server.running() and client.running(), 'the traffic stopped', server, client)
        for p in (client, server):
            p.signal(signal.SIGKILL)
            p.popen.wait()

        veth.ip('-n', veth.names[1], 'link', 'set', 'veth0', 'down')
        watch.proc.wait_until(lambda: 'IBV_EVENT_PORT_ERR' in watch.events(), 'the port was down')
        veth.ip('-n', veth.names[1], 'link', 'set', 'veth0', 'up')
        watch.proc.wait_until(lambda: 'IBV_EVENT_PORT_ACTIVE' in watch.events(), 'the port was up')
        veth.ip('-n', veth.names[0], 'link', 'delete', 'veth0')
        watch.proc.wait_until(lambda: 'IBV_EVENT_DEVICE_FATAL' in watch.proc.stdout, 'the device was gone')
    finally:
        for p in procs:
            if p.running():
                p.kill()
        veth.close()


def flaps(config, lab):
    """Taken down by fault injection: the program gets the event, and the interface is not affected."""
    side = lab.get('lo').client
    watch = start(config, side, ['stdbuf', '-oL', 'ibv_asyncwatch', '-d', side.name], 'ibv_asyncwatch',
                  options=('--impair', 'flap=50ms..100ms/20ms..50ms,seed=1'))
    try:
        def turns():
            return re.findall(r'event_type IBV_EVENT_PORT_(ERR|ACTIVE) ', watch.stdout)
        watch.wait_until(lambda: len(turns()) >= 6, 'the port had gone down three times')
        expect(all(a != b for a, b in zip(turns(), turns()[1:])), f'not in turns: {turns()}', watch)
        expect('GID_CHANGE' not in watch.stdout and 'FATAL' not in watch.stdout, 'other events', watch)
    finally:
        watch.kill()


def packets(veth):
    """Packets that the first end has received."""
    return int(re.search(r'RX:.*\n\s*\d+\s+(\d+)', veth.ip('-n', veth.names[0], '-s', 'link', 'show', 'veth0')).group(1))


def cases():
    return [Case('port/changes', changes, NORMAL, needs=('ibv_asyncwatch', 'stdbuf')),
            Case('port/flaps', flaps, NORMAL, needs=('ibv_asyncwatch', 'stdbuf'))]
