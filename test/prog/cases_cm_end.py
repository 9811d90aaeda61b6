# SPDX-License-Identifier: BSD-2-Clause
"""Tests processes that are killed in each state of a connection: the other one's event, and that it
comes at once. Each is a cm-actor (cm-actor.c), which executes commands line by line."""
import os
import re
import select
import signal
import subprocess

from harness import NORMAL, QUICK, Case, Failure, new_port, rocemu_argv, sanitizer_env

# Far below the first timeout of the protocol (4.3 s); but a busy machine is no failure.
AT_ONCE_MS = 3000
GUARD_MS = 60000


class Actor:
    """A process that answers line by line. Killed at the end of a `with`."""

    def __init__(self, config, side, name, options=()):
        argv = rocemu_argv(config, side, [config.program('prog', 'cm-actor')], options)
        if side.netns:
            argv = ['ip', 'netns', 'exec', side.netns] + argv
        self.name = name
        self.said = []
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
                                     env={**os.environ, **sanitizer_env(config)})

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()

    def kill(self):
        """Without a warning, as the kernel's out-of-memory killer would."""
        if self.proc.returncode is None:
            try:
                os.killpg(self.proc.pid, signal.SIGKILL)
            except OSError:
                pass
            self.proc.wait()

    def ask(self, line, guard_ms=GUARD_MS):
        self.proc.stdin.write(line + '\n')
        self.proc.stdin.flush()
        if not select.select([self.proc.stdout], [], [], guard_ms / 1000 + 30)[0]:
            raise Failure(f'{self.name}: no answer to "{line}" after {self.said}')
        answer = self.proc.stdout.readline().strip()
        self.said.append(f'{line} -> {answer}')
        return answer

    def do(self, line, answer='ok'):
        got = self.ask(line)
        if not re.fullmatch(answer, got):
            raise Failure(f'{self.name}: "{line}": {got}, not {answer}; before: {self.said}')
        return got

    def event(self, wanted, ms=AT_ONCE_MS):
        """The next event is this one ("NAME STATUS"), and comes within the time."""
        got = self.ask(f'event {ms}', ms)
        if not re.match(wanted + r'\b', got):
            raise Failure(f'{self.name}: {got}, not {wanted}; before: {self.said}')


class Two:
    """A server that listens and a client that has a route to it."""

    def __init__(self, config, topo, space='tcp'):
        topo.check()
        self.port = new_port()
        self.server = Actor(config, topo.server, 'server')
        self.client = Actor(config, topo.client, 'client')
        self.server.do(f'listen {topo.server.address} {self.port} 8 {space}', r'ok \d+')
        self.client.do(f'resolve {topo.server.address} {self.port} {space}', r'ok \d+')
        self.client.do('qp 0')

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.kill()
        self.client.kill()

    def request(self):
        self.client.do('connect 0')
        self.server.event('CONNECT_REQUEST 0 1')

    def accept(self):
        self.request()
        self.server.do('qp 1')
        self.server.do('accept 1')

    def establish(self):
        self.accept()
        self.client.event('ESTABLISHED 0')
        self.server.event('ESTABLISHED 0')


# Each is named by who is killed, and when.

def server_listening(two):
    two.server.kill()
    two.client.do('connect 0')
    two.client.event('REJECTED 8')


def server_request_unseen(two):
    two.client.do('connect 0')
    # It is not known whether the process had received the request already.
    two.server.kill()
    two.client.event('REJECTED (28|8)')


def server_request_seen(two):
    two.request()
    two.server.kill()
    two.client.event('REJECTED 28')


def server_accepted(two):
    two.accept()
    two.server.kill()
    # The REP may have been seen before its sender was gone.
    two.client.event(r'(REJECTED 28|CONNECT_ERROR -\d+|ESTABLISHED 0)')


def server_established(two):
    two.establish()
    two.server.kill()
    two.client.event('DISCONNECTED 0')
    two.client.do('disconnect 0')
    two.client.event('TIMEWAIT_EXIT 0', GUARD_MS)


def server_asked_to_disconnect(two):
    two.establish()
    two.client.do('disconnect 0')
    two.server.event('DISCONNECTED 0')
    two.server.kill()
    two.client.event('DISCONNECTED 0')


def client_request_seen(two):
    two.request()
    two.client.kill()
    # No event before accepting, as in the kernel. Accepting may be quicker than the event.
    two.server.do('qp 1')
    if two.server.do('accept 1', 'error EINVAL|ok') == 'ok':
        two.server.event('REJECTED (4|6|28)')


def client_accepted(two):
    two.accept()
    two.client.kill()
    # Whether it had the REP already is not known. 6: it came when its communication ID was no more, which
    # the kernel answers in this way, too.
    two.server.event('REJECTED (4|6|28)')


def client_established(two):
    two.establish()
    two.client.kill()
    two.server.event('DISCONNECTED 0')
    two.server.do('disconnect 1')
    two.server.event('TIMEWAIT_EXIT 0', GUARD_MS)


def client_disconnecting(two):
    two.establish()
    two.client.do('disconnect 0')
    two.client.kill()
    two.server.event('DISCONNECTED 0')


def cases():
    for story in (server_listening, server_request_unseen, server_request_seen, server_accepted, server_established,
                  server_asked_to_disconnect, client_request_seen, client_accepted, client_established,
                  client_disconnecting):
        for place in ('lo', 'veth1500-v6'):
            def run(config, lab, place=place, story=story):
                with Two(config, lab.get(place)) as two:
                    story(two)

            yield Case(f'cm/killed/{story.__name__}/{place}', run, QUICK if story is server_established and place == 'lo' else NORMAL)
