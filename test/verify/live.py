#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts and a bridge between them, in network namespaces: what tcpdump records at each point is judged the same.

usage: live.py ROCEMU AGENT

Captured at once: at the sender and at the receiver, whose interfaces see bursts as one frame; at the bridge's port; at
all interfaces of the bridge's host; `tcpdump -w - | rocemu verify -`; `rocemu verify -i`. And both hosts' captures
merged. Then a host talks to itself: the identifications of its packets count, and their ICRCs are right. Of what was
captured at each point the beginnings of the frames show nothing that the whole frames do not. Exit code 77 (skipped) without
root, tcpdump, perftest or rping.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cuts

SNAP_LENS = (54, 58, 64, 76, 96, 128)
SKIP = 77
GUARD_S = 90
MAX_SEGMENTS = 128  # of a burst: others than rocemu's connected sockets have smaller identifications
PROGRAMS = ('ip', 'unshare', 'nsenter', 'tcpdump', 'mergecap', 'ib_write_bw', 'rping')
END = b'the end of the traffic'
SEND_END = f'import socket, sys; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto({END!r}, (sys.argv[1], 9))'
BETWEEN = (('rping -s -a 10.9.0.2 -C 3', 'rping -c -a 10.9.0.2 -C 3'),
           ('ib_write_bw -d dev0 -n 8 -s 65536 -F', 'ib_write_bw -d dev0 -n 8 -s 65536 -F 10.9.0.2'))
OWN = tuple((f'{words} -d dev0 -F', f'{words} -d dev0 -F 10.9.0.1')
            for words in ('ib_send_lat -n 500 -s 8', 'ib_write_bw -n 50 -s 65536', 'ib_write_bw -n 500 -s 64', 'ib_send_lat -c UD -n 200'))


def why_not():
    missing = [p for p in PROGRAMS if shutil.which(p) is None]
    if missing:
        return f'not installed: {" ".join(missing)}'
    if os.geteuid() != 0:
        return 'needs root for network namespaces'
    p = subprocess.run(['unshare', '-n', 'ip', 'link', 'add', 'veth-a', 'type', 'veth'], capture_output=True, check=False)
    if p.returncode:
        return f'no network namespaces here: {p.stderr.decode().strip()}'
    p = subprocess.run(['unshare', '-n', 'ip', 'link', 'add', 'bridge-b', 'type', 'bridge'], capture_output=True, check=False)
    return f'no bridges here: {p.stderr.decode().strip()}' if p.returncode else None


class Lab:
    """This process is in the bridge's namespace; a and b are the hosts."""

    def __init__(self, rocemu, agent, directory):
        self.rocemu, self.directory, self.children = rocemu, directory, []
        self.env = {**os.environ, 'ROCEMU_AGENT_BIN': agent, 'HOME': directory}
        self.hosts = {}
        self.ip('link', 'set', 'lo', 'up')
        self.ip('link', 'add', 'br0', 'type', 'bridge')
        for n, name in enumerate('ab', 1):
            p = subprocess.Popen(['unshare', '-n', 'sh', '-c', 'echo; exec cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            p.stdout.readline()
            self.children.append(p)
            self.hosts[name] = ('nsenter', '-t', str(p.pid), '-n')
            self.ip('link', 'add', f's{name}', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', str(p.pid))
            self.ip('link', 'set', f's{name}', 'mtu', '4200', 'master', 'br0', 'up')
            for words in ('link set lo up', 'link set eth0 mtu 4200', f'addr add 10.9.0.{n}/24 dev eth0', 'link set eth0 up'):
                self.run(*self.hosts[name], 'ip', *words.split())
        self.ip('link', 'set', 'br0', 'up')

    def run(self, *args):
        return subprocess.run(args, check=True, capture_output=True, timeout=GUARD_S)

    def ip(self, *args):
        self.run('ip', *args)

    def path(self, name):
        return os.path.join(self.directory, name)

    def popen(self, *args, **also):
        p = subprocess.Popen(args, env=self.env, stdin=subprocess.DEVNULL, **also)
        self.children.append(p)
        return p

    def device(self, name, *program):
        """A program on a host's emulated device; its output goes to a file, for agents outlive it."""
        env = {**self.env, 'ROCEMU_AGENT_NAME': f'verify-{os.getpid()}-{name}'}
        with open(self.path(f'{program[0]}-{name}.log'), 'wb') as f:
            return subprocess.Popen([*self.hosts[name], self.rocemu, 'run', '--device', 'dev0=eth0', '--', *program], env=env,
                                    stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT)

    def traffic(self, programs, host, address):
        """Servers at the host, whose address it is, clients at a. The END comes last."""
        for server, client in programs:
            s = self.device(host, *server.split())
            for _ in range(50):  # the server may not listen yet
                c = self.device('a', *client.split())
                if c.wait(timeout=GUARD_S) == 0:
                    break
                time.sleep(0.2)
            if c.returncode or s.wait(timeout=GUARD_S):
                s.kill()
                with open(self.path(f'{client.split()[0]}-a.log'), encoding='utf-8', errors='replace') as f:
                    raise RuntimeError(f'{client}: exit codes {c.returncode}, {s.returncode}: {f.read()[-2000:]}')
        self.run(*self.hosts['a'], sys.executable, '-c', SEND_END, address)

    def close(self):
        for p in reversed(self.children):
            if p.poll() is None:
                p.kill()
            p.wait()


class Tcpdump:
    """Captures until stop(); what was sent before the END is there then."""

    def __init__(self, lab, name, where, interface):
        self.lab, self.path = lab, lab.path(name)
        self.p = lab.popen(*where, 'tcpdump', '--immediate-mode', '-U', '-n', '-B', '65536', '-i', interface, '-w', self.path,
                           stderr=subprocess.PIPE)
        while b'listening on' not in self.p.stderr.readline():
            if self.p.poll() is not None:
                raise RuntimeError(f'tcpdump at {interface} ends')

    def stop(self):
        for _ in range(GUARD_S * 20):
            with open(self.path, 'rb') as f:
                if END in f.read():
                    break
            time.sleep(0.05)
        self.p.send_signal(signal.SIGINT)
        said = self.p.stderr.read().decode()
        self.p.wait(timeout=GUARD_S)
        return '0 packets dropped by kernel' in said


def verify(lab, *args):
    p = subprocess.run([lab.rocemu, 'verify', '--json', *args], capture_output=True, text=True, timeout=GUARD_S, check=False)
    if p.returncode not in (0, 1):
        raise RuntimeError(f'{args}: exit code {p.returncode}: {p.stderr}')
    return json.loads(p.stdout)


def captured(lab):
    """Name -> report, of each point; and whether tcpdump got all."""
    here = ()
    dumps = {name: Tcpdump(lab, f'{name}.pcap', where, interface) for name, where, interface in (
        ('sender', lab.hosts['a'], 'eth0'), ('receiver', lab.hosts['b'], 'eth0'), ('switch', here, 'sa'), ('any', here, 'any'))}
    pipe = lab.popen('tcpdump', '--immediate-mode', '-U', '-n', '-B', '65536', '-i', 'sb', '-w', '-', stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
    while b'listening on' not in pipe.stderr.readline():
        if pipe.poll() is not None:
            raise RuntimeError('tcpdump to a pipe ends')
    stdin = subprocess.Popen([lab.rocemu, 'verify', '--json', '-'], stdin=pipe.stdout, stdout=subprocess.PIPE, env=lab.env)
    lab.children.append(stdin)
    pipe.stdout.close()
    live = lab.popen(lab.rocemu, 'verify', '--json', '-i', 'sb', stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if b'capturing at' not in live.stderr.readline():
        raise RuntimeError('verify -i ends')
    lab.traffic(BETWEEN, 'b', '10.9.0.2')
    complete = {name: dump.stop() for name, dump in dumps.items()}
    pipe.send_signal(signal.SIGINT)
    stdin.send_signal(signal.SIGINT)
    live.send_signal(signal.SIGINT)
    reports = {name: verify(lab, dump.path) for name, dump in dumps.items()}
    reports['stdin'] = json.loads(stdin.communicate(timeout=GUARD_S)[0])
    said = live.communicate(timeout=GUARD_S)[0].decode()
    reports['live'] = json.loads(said[said.index('{"file"'):])
    for name, option in (('merged.pcapng', ('-I', 'none')), ('merged.pcap', ('-F', 'pcap'))):
        lab.run('mergecap', *option, '-w', lab.path(name), dumps['sender'].path, dumps['receiver'].path)
        reports[name] = verify(lab, lab.path(name))
    return reports, complete


def cut_short(lab, name):
    """What is found in the beginnings of a capture's frames, and should not be."""
    capture = cuts.read(lab.path(name))
    paths = {lab.path(f'{name}-{n}'): n for n in SNAP_LENS}
    for path, n in paths.items():
        capture.write(path, n)
    reports = cuts.verify(lab.rocemu, [lab.path(name), *paths])
    found = [f'{name} cut at {n}: {p}' for path, n in paths.items() for p in cuts.judge(reports[path], reports[lab.path(name)])]
    print(f'{name}, cut: {[reports[path]["counts"] for path in paths if not isinstance(reports[path], str)]}')
    return found


def judge(reports, complete):
    problems = []
    for name, report in reports.items():
        print(f'{name}: {report["packets"]} packets, {report["bursts"]} bursts, {report["counts"]}')
        if report['errors'] or 'unsegmented' in report['counts']:
            problems.append(f'{name}: {report["findings"]}')
    whole = [name for name in ('sender', 'receiver', 'switch', 'any') if complete[name]]
    for name in whole[1:]:
        if reports[name]['packets'] != reports[whole[0]]['packets']:
            problems.append(f'{whole[0]} has {reports[whole[0]]["packets"]} packets, {name} {reports[name]["packets"]}')
    if complete['sender'] and complete['receiver']:
        for name in ('merged.pcapng', 'merged.pcap'):
            if (reports[name]['packets'], reports[name]['counts']) != (reports['sender']['packets'], reports['sender']['counts']):
                problems.append(f'{name} is not judged as one end: {reports[name]["counts"]}')
    if not reports['sender']['bursts']:
        problems.append('the sender sent no bursts: nothing was tried')
    return problems


def own_address(lab):
    """@return what is wrong with a host's packets to itself."""
    dump = Tcpdump(lab, 'own.pcap', lab.hosts['a'], 'lo')
    lab.traffic(OWN, 'a', '10.9.0.1')
    dump.stop()
    report = verify(lab, dump.path)
    text = lab.run('tcpdump', '-nvr', dump.path, 'udp dst port 4791').stdout.decode()
    counted = sum(int(i) > MAX_SEGMENTS for i in re.findall(r' id (\d+),', text))
    print(f'own address: {report["packets"]} packets, {counted} frames with counted identifications, {report["counts"]}')
    if report['errors']:
        return [f'own address: {report["findings"]}']
    return [] if counted > 500 else ['own address: identifications did not count: nothing was tried']


def main():
    reason = why_not()
    if reason is not None:
        print(f'skipped: {reason}')
        return SKIP
    if os.environ.get('ROCEMU_LIVE_NETNS') is None:
        os.environ['ROCEMU_LIVE_NETNS'] = '1'
        os.execvp('unshare', ['unshare', '-n', sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory(prefix='rocemu-live-') as directory:
        lab = Lab(*map(os.path.abspath, sys.argv[1:3]), directory)
        try:
            problems = judge(*captured(lab)) + own_address(lab)
            for name in ('sender', 'receiver', 'switch', 'own'):
                problems += cut_short(lab, f'{name}.pcap')
        finally:
            lab.close()
    print('\n'.join(problems) or 'the same at every point')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
