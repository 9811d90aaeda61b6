# SPDX-License-Identifier: BSD-2-Clause
"""Boots the guest in QEMU on a tap of this process's network namespace, and runs programs in it."""
import ctypes
import itertools
import json
import os
import shlex
import signal
import socket
import subprocess
import threading
import time

from guest_image import Unavailable

TAP = 'roce0'
HOST_V4, GUEST_V4, BITS_V4 = '10.77.0.1', '10.77.0.2', 24
HOST_V6, GUEST_V6, BITS_V6 = 'fd77::1', 'fd77::2', 64
GUEST_MAC = '52:54:00:77:00:02'
BOOT_GUARD_S = 240          # emulated, on a busy machine
PROBE_GUARD_S = 5           # until a kernel that boots under KVM has printed its first line
CALL_GUARD_S = 60
PR_SET_PDEATHSIG = 1
MARK = 'rocemu-guest: started'


class Failure(Exception):
    """A step in the guest failed; the text has the error."""


def ip(*args):
    p = subprocess.run(['ip', *map(str, args)], capture_output=True, text=True, check=False)
    if p.returncode != 0:
        raise Unavailable(f'ip {" ".join(map(str, args))}: {p.stderr.strip()}')
    return p.stdout


def make_wire():
    """The tap, with the host's addresses. Its namespace, and the tap with it, ends with this process."""
    ip('link', 'set', 'lo', 'up')
    ip('tuntap', 'add', 'dev', TAP, 'mode', 'tap')
    ip('link', 'set', TAP, 'mtu', 4200, 'up')
    ip('address', 'add', f'{HOST_V4}/{BITS_V4}', 'dev', TAP)
    ip('address', 'add', f'{HOST_V6}/{BITS_V6}', 'dev', TAP, 'nodad')


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def may_use_kvm():
    """/dev/kvm may be there and useless (nested virtualisation): the first boot shows it."""
    return os.access('/dev/kvm', os.R_OK | os.W_OK)


class Program:
    """A program in the guest; looks like harness.Proc."""

    def __init__(self, guest, order, argv, name):
        self.guest, self.order, self.argv, self.name = guest, order, argv, name
        self.stdout = self.stderr = ''
        self.returncode = None
        self.is_listening = False
        self.changed = threading.Condition()

    def message(self, m):
        with self.changed:
            self.stdout += m.get('out', '')
            self.stderr += m.get('err', '')
            self.is_listening |= m.get('listening', False)
            self.returncode = m.get('exit', self.returncode)
            self.changed.notify_all()

    @property
    def output(self):
        return self.stdout + self.stderr

    def running(self):
        return self.returncode is None

    def wait(self, timeout=CALL_GUARD_S):
        with self.changed:
            if not self.changed.wait_for(lambda: self.returncode is not None or not self.guest.alive, timeout):
                raise Failure(f'{self.name} in the guest did not end within {timeout} s\n{self.report()}')
            if self.returncode is None:
                raise Failure('the guest has died')
            return self.returncode

    def wait_listening(self, port, timeout=CALL_GUARD_S):
        self.guest.send(id=self.order, listen=port)
        with self.changed:
            if not self.changed.wait_for(lambda: self.is_listening or self.returncode is not None, timeout) \
                    or not self.is_listening:
                raise Failure(f'{self.name} in the guest does not listen on TCP port {port}\n{self.report()}')

    def kill(self):
        if self.running() and self.guest.alive:
            self.guest.send(id=self.order, kill=int(signal.SIGKILL))
            self.wait()

    def report(self, lines=30):
        text = [f'  {self.name} (guest): {shlex.join(self.argv)} -> {self.returncode}']
        for label, content in (('out', self.stdout), ('err', self.stderr)):
            rows = content.splitlines()
            text += [f'    {label}| {row}' for row in (['...'] + rows[-lines:] if len(rows) > lines else rows)]
        return '\n'.join(text)


class Guest:
    """The virtual machine and the serial port for its commands."""

    def __init__(self, kernel, initrd, build, work, say):
        self.kernel, self.initrd, self.build, self.work, self.say = kernel, initrd, build, work, say
        self.qemu = self.sock = None
        self.accel = self.release = ''
        self.alive = False
        self.orders = itertools.count(1)
        self.programs = {}
        self.ready = threading.Event()
        self.ready_message = {}
        self.lock = threading.Lock()

    def argv(self, accel):
        v4, v6 = f'{GUEST_V4}/{BITS_V4}', f'{GUEST_V6}/{BITS_V6}'
        return ['qemu-system-x86_64', '-M', 'pc', '-accel', accel, *(['-cpu', 'max'] if accel != 'kvm' else ['-cpu', 'host']),
                '-m', '1024', '-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none',
                '-kernel', self.kernel, '-initrd', self.initrd,
                '-append', f'console=ttyS0 quiet no_timer_check panic=-1 mitigations=off rdinit=/init rocemu.v4={v4} rocemu.v6={v6}',
                '-serial', f'file:{self.console()}',
                '-netdev', f'tap,id=n0,ifname={TAP},script=no,downscript=no,vnet_hdr=off',
                '-object', f'filter-dump,id=dump,netdev=n0,maxlen=65536,file={self.path("wire.pcap")}',
                '-device', f'virtio-net-pci,netdev=n0,mac={GUEST_MAC},romfile=',
                '-device', 'virtio-serial-pci', '-chardev', f'socket,id=c0,path={self.path("orders")},server=on,wait=off',
                '-device', 'virtserialport,chardev=c0,name=rocemu',
                '-virtfs', f'local,path={self.build},mount_tag=build,security_model=none,readonly=on']

    def path(self, name):
        return os.path.join(self.work, name)

    def console(self):
        return self.path('console.log')

    def console_text(self):
        try:
            with open(self.console(), encoding='utf-8', errors='replace') as f:
                return f.read()
        except OSError:
            return ''

    def launch(self, accel):
        for name in ('console.log', 'orders'):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        with open(self.path('qemu.log'), 'wb') as log:
            self.qemu = subprocess.Popen(self.argv(accel), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         preexec_fn=end_with_parent)
        self.accel = accel

    def until(self, condition, seconds):
        """Waits for what has no file descriptor of its own; False when it did not come or QEMU has ended."""
        end = time.monotonic() + seconds
        while not condition():
            if self.qemu.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def boot(self):
        begin = time.monotonic()
        if may_use_kvm():
            self.launch('kvm')
            if not self.until(lambda: MARK in self.console_text(), PROBE_GUARD_S):
                self.say('/dev/kvm is there but boots nothing: emulating')
                self.end()
                self.qemu = None
        if self.qemu is None:
            self.launch('tcg,thread=multi')
            if not self.until(lambda: MARK in self.console_text(), BOOT_GUARD_S):
                raise Unavailable(f'the guest does not boot: {self.last_words()}')
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path('orders'))
        self.alive = True
        threading.Thread(target=self.receive, daemon=True).start()
        if not self.until(self.ready.is_set, BOOT_GUARD_S) or not self.ready_message.get('ready'):
            raise Unavailable(f'the guest has no rxe0: {self.last_words()}')
        self.release = self.ready_message['kernel']
        self.say(f'guest: Linux {self.release}, {self.accel.split(",")[0]}, up after {time.monotonic() - begin:.0f} s')

    def last_words(self):
        with open(self.path('qemu.log'), encoding='utf-8', errors='replace') as f:
            rows = (self.console_text() + f.read()).strip().splitlines()
        return ' | '.join(rows[-5:]) or 'it says nothing'

    def receive(self):
        data = b''
        while True:
            try:
                more = self.sock.recv(65536)
            except OSError:
                more = b''
            if not more:
                break
            *lines, data = (data + more).split(b'\n')
            for line in lines:
                m = json.loads(line)
                if 'ready' in m:
                    self.ready_message = m
                    self.ready.set()
                elif m['id'] in self.programs:
                    self.programs[m['id']].message(m)
        self.alive = False
        for p in list(self.programs.values()):
            p.message({})

    def send(self, **message):
        with self.lock:
            self.sock.sendall(json.dumps(message).encode() + b'\n')

    def start(self, argv, name='program', env=None):
        argv = [str(a) for a in argv]
        order = next(self.orders)
        p = self.programs[order] = Program(self, order, argv, name)
        self.send(id=order, run=argv, env=env or {})
        return p

    def run(self, *argv, good=(0,)):
        """Run to its end; its output."""
        p = self.start(argv)
        if p.wait() not in good:
            raise Failure(f'in the guest:\n{p.report()}')
        return p.stdout

    def end(self):
        if self.qemu is not None and self.qemu.poll() is None:
            self.qemu.kill()
            self.qemu.wait()
