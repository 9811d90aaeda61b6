# SPDX-License-Identifier: BSD-2-Clause
"""What ordinary programs do to a process that has QPs and connections."""
import os
import signal
import tempfile

from harness import NORMAL, QUICK, Case, expect, run, start


def habits(config, lab, *argv, options=(), env=None):
    p = run(config, lab.get('lo').server, [config.program('prog', 'habits'), *argv], 'habits', env, options)
    expect(p.popen.returncode == 0, 'failed', p)
    return p


def stack(config, lab):
    """The smallest stack that the C library gives a thread is enough for every call."""
    p = habits(config, lab, 'stack')
    return '; '.join(p.stdout.splitlines())


def stack_traced(config, lab):
    with tempfile.TemporaryDirectory(prefix='rocemu-habits-') as d:
        habits(config, lab, 'stack', options=('--pcap', os.path.join(d, 'x.pcap'), '--impair', 'loss=1%'))


def cancel(what):
    """Threads are cancelled in calls; their QPs, connections and sockets work for others."""
    def check(config, lab):
        habits(config, lab, 'cancel', what)
    return check


def cancel_traced(config, lab):
    """The same with the locks of capture and faults."""
    with tempfile.TemporaryDirectory(prefix='rocemu-habits-') as d:
        habits(config, lab, 'cancel', 'objects', options=('--pcap', os.path.join(d, 'x.pcap'), '--impair', 'loss=0.1%'))


def fork(what):
    """Children of a process with traffic; what the parent has fails in the child, with one message each."""
    def check(config, lab):
        with tempfile.TemporaryDirectory(prefix='rocemu-habits-') as d:
            p = habits(config, lab, 'fork', what, options=('--pcap', os.path.join(d, '%p.pcap')))
        said = [line for line in p.stderr.splitlines() if 'before fork() or daemon()' in line]
        expect(len(said) == len(set(said)), 'a message more than once', p)
        expect(bool(said) == (what in ('destroy', 'daemon', 'streams')), 'messages or none', p)
    return check


def end(what):
    """exit() in the handler of a signal that interrupted any call."""
    def check(config, lab):
        habits(config, lab, 'exit', what)
    return check


def end_traced(what):
    """The same with the locks of capture, faults and timeline. (A lost packet of a connection's begin would take seconds.)"""
    def check(config, lab):
        with tempfile.TemporaryDirectory(prefix='rocemu-habits-') as d:
            files = {name: os.path.join(d, name) for name in ('timeline', '%p.pcap', 'faults')}
            habits(config, lab, 'exit', what, options=('--trace', files['timeline'], '--pcap', files['%p.pcap'],
                                                       '--impair', 'dup=5%', '--impair-log', files['faults']))
    return check


def storm(config, lab):
    """A process with many new connections ends without destructors: the listener sees all of them (habits-storm.c)."""
    habits(config, lab, 'storm')


def words(wire):
    """Another thread sees aligned words in messages as a whole (see habits-words.c)."""
    def check(config, lab):
        return habits(config, lab, 'words', options=('--wire', wire)).stdout.strip()
    return check


def threads(proc):
    """The states of a process's threads."""
    states = []
    for tid in os.listdir(f'/proc/{proc.pid}/task'):
        try:
            with open(f'/proc/{proc.pid}/task/{tid}/stat', encoding='ascii', errors='replace') as f:
                states.append(f.read().rsplit(')', 1)[1].split()[0])
        except OSError:         # it has just ended
            pass
    return states


def closed(config, lab):
    """A program closes all descriptors once librdmacm has its threads. A thread in poll() sees that at its next turn, which
    SIGCONT causes; then it ends. It must not poll again and again."""
    p = start(config, lab.get('lo').server, [config.program('prog', 'habits'), 'closed'], 'habits')
    try:
        p.wait_until(lambda: 'closed' in p.stdout, 'it closed its descriptors')
        before = len(threads(p))
        p.signal(signal.SIGSTOP)
        p.wait_until(lambda: set(threads(p)) == {'T'}, 'it was stopped')
        p.signal(signal.SIGCONT)
        p.wait_until(lambda: len(threads(p)) == 1, 'the threads ended')
        expect('the program has closed its descriptors' in p.stderr, 'without a message', p)
        return f'{before - 1} threads'
    finally:
        p.kill()


def cases():
    return [
        Case('habits/stack/plain', stack, NORMAL),
        Case('habits/stack/traced', stack_traced, NORMAL),
        *(Case(f'habits/cancel/{what}', cancel(what), NORMAL)
          for what in ('data', 'events', 'objects', 'connections', 'streams')),
        Case('habits/cancel/traced', cancel_traced, NORMAL),
        *(Case(f'habits/fork/{what}', fork(what), NORMAL)
          for what in ('locks', 'destroy', 'daemon', 'spawn', 'channel', 'streams')),
        *(Case(f'habits/exit/{what}', end(what), NORMAL)
          for what in ('data', 'events', 'objects', 'devices', 'connections', 'ids', 'streams')),
        *(Case(f'habits/exit/traced/{what}', end_traced(what), NORMAL) for what in ('data', 'objects', 'connections', 'streams')),
        Case('habits/storm', storm),
        *(Case(f'habits/words/{wire}', words(wire), QUICK) for wire in ('udp', 'shm')),
        Case('habits/closed', closed, NORMAL),
    ]
