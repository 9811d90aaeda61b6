#!/usr/bin/python3 -S
# SPDX-License-Identifier: BSD-2-Clause
"""The guest's first process: brings up eth0 and rxe0, then executes commands.

Commands come as lines of JSON over a virtio serial port, so that the wire under test carries nothing of them:

  {"id": N, "run": [...], "env": {...}}  start a program; answers {"id": N, "out"|"err": text} as it prints and
                                         {"id": N, "exit": code} at its end
  {"id": N, "kill": signal}              to the program of order N
  {"id": N, "listen": port}              answers {"id": N, "listening": true} when a TCP socket listens there

It sends {"ready": ...} once the device exists.
"""
import glob
import json
import os
import selectors
import signal
import stat
import subprocess
import sys
import time

LISTEN = '0A'


def must(*argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if p.returncode != 0:
        print(f'rocemu-guest: {" ".join(argv)}: {p.stdout.strip()}', flush=True)
    return p.stdout


def kernel_option(name):
    with open('/proc/cmdline', encoding='ascii') as f:
        for word in f.read().split():
            key, _, value = word.partition('=')
            if key == name:
                return value
    return ''


def bring_up():
    os.environ['PATH'] = '/usr/sbin:/usr/bin:/sbin:/bin'
    for kind, where in (('proc', '/proc'), ('sysfs', '/sys'), ('devtmpfs', '/dev'), ('tmpfs', '/tmp'), ('tmpfs', '/run')):
        must('mount', '-t', kind, kind, where)
    with open('/modules/order', encoding='ascii') as f:
        for name in f.read().split():
            must('insmod', f'/modules/{name}.ko')
    # Cached: nothing changes there once it has been looked at, and programs are started hundreds of times.
    must('mount', '-t', '9p', '-o', 'trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose', 'build', '/build')
    must('ip', 'link', 'set', 'lo', 'up')
    must('ip', 'link', 'set', 'eth0', 'mtu', '4200')
    must('ip', 'link', 'set', 'eth0', 'up')
    must('ip', 'address', 'add', kernel_option('rocemu.v4'), 'dev', 'eth0')
    must('ip', 'address', 'add', kernel_option('rocemu.v6'), 'dev', 'eth0', 'nodad')
    must('rdma', 'link', 'add', 'rxe0', 'type', 'rxe', 'netdev', 'eth0')
    # No udev here: device nodes where rdma-core looks for them.
    os.makedirs('/dev/infiniband', exist_ok=True)
    for path in glob.glob('/sys/class/infiniband_verbs/uverbs*/dev') + glob.glob('/sys/class/misc/rdma_cm/dev'):
        name = path.split('/')[-2]
        with open(path, encoding='ascii') as f:
            major, minor = map(int, f.read().split(':'))
        if not os.path.exists(f'/dev/infiniband/{name}'):
            os.mknod(f'/dev/infiniband/{name}', stat.S_IFCHR | 0o666, os.makedev(major, minor))
    return 'rxe0' in must('rdma', 'link')


def listening(port):
    for table in ('tcp', 'tcp6'):
        with open(f'/proc/net/{table}', encoding='ascii') as f:
            for line in f.readlines()[1:]:
                column = line.split()
                if column[3] == LISTEN and int(column[1].rsplit(':', 1)[1], 16) == port:
                    return True
    return False


class Agent:
    def __init__(self, port):
        self.port = port
        self.input = b''
        self.select = selectors.DefaultSelector()
        self.select.register(port, selectors.EVENT_READ, self.orders)
        self.programs = {}       # order: (process, pipes still open)
        self.waits = {}          # order: TCP port

    def say(self, **message):
        data = json.dumps(message).encode() + b'\n'
        while data:
            data = data[os.write(self.port, data):]

    def orders(self, fd):
        data = os.read(fd, 65536)
        if not data:
            time.sleep(0.01)     # no reader at the other end yet
            return
        *lines, self.input = (self.input + data).split(b'\n')
        for line in lines:
            self.order(json.loads(line))

    def order(self, o):
        if 'run' in o:
            self.start(o)
        elif 'kill' in o:
            if o['id'] in self.programs:
                try:
                    os.killpg(self.programs[o['id']][0].pid, o['kill'])
                except ProcessLookupError:
                    pass
        elif 'listen' in o:
            self.waits[o['id']] = o['listen']

    def start(self, o):
        try:
            p = subprocess.Popen(o['run'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env={**os.environ, **o.get('env', {})}, start_new_session=True, cwd='/tmp')
        except OSError as e:
            self.say(id=o['id'], err=f'{o["run"][0]}: {e.strerror}\n')
            self.say(id=o['id'], exit=127)
            return
        self.programs[o['id']] = [p, 2]
        for name, pipe in (('out', p.stdout), ('err', p.stderr)):
            os.set_blocking(pipe.fileno(), False)
            self.select.register(pipe, selectors.EVENT_READ, lambda f, n=name, i=o['id']: self.output(i, n, f))

    def output(self, order, name, pipe):
        data = pipe.read(65536)
        if data is None:
            return
        if data:
            self.say(id=order, **{name: data.decode('utf-8', 'replace')})
            return
        self.select.unregister(pipe)
        pipe.close()
        self.programs[order][1] -= 1

    def ended(self):
        for order, (p, pipes) in list(self.programs.items()):
            if pipes == 0 and p.poll() is not None:
                del self.programs[order]
                self.say(id=order, exit=p.returncode)
        for order, port in list(self.waits.items()):
            if listening(port):
                del self.waits[order]
                self.say(id=order, listening=True)

    def serve(self):
        while True:
            busy = self.waits or any(pipes == 0 for _, pipes in self.programs.values())
            for key, _ in self.select.select(0.02 if busy else 1):
                key.data(key.fileobj)
            self.ended()


def main():
    print('rocemu-guest: started', flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    good = bring_up()
    ports = glob.glob('/dev/vport*')
    if not ports:
        print('rocemu-guest: no virtio serial port', flush=True)
        sys.exit(1)
    agent = Agent(os.open(ports[0], os.O_RDWR))
    agent.say(ready=good, kernel=os.uname().release)
    agent.serve()


if __name__ == '__main__':
    main()
