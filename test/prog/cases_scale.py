# SPDX-License-Identifier: BSD-2-Clause
"""What a call costs must not depend on how many objects there are. Instructions are counted, which a busy machine does
not change: those of the program's functions step_*, for a small number of objects and a large one. And more QPs than one
lane has."""
import os
import re
import tempfile

from harness import NORMAL, Case, Skip, expect, run

SMALL, LARGE = 1100, 8800             # tables grow at powers of two
LARGE_QPS = 17600                     # a lane has 16,381
GROUPS = 15, 120                      # an endpoint has 128
MORE, MARGIN = 1.5, 300               # a walk over 8800 objects costs 10,000 instructions at least


def costs(path):
    """{step: (calls, instructions of one with all that it calls)} of a profile (callgrind's format of files)."""
    names, found, step, calls = {}, {}, None, None
    with open(path, encoding='utf-8', errors='replace') as f:
        for line in f:
            m = re.match(r'c?fn=\((\d+)\)(?: (\S+))?', line)
            if m and m.group(2):
                names[m.group(1)] = m.group(2)
            if line.startswith('cfn='):
                step = re.match(r'step_[a-z_]+', names[m.group(1)])
            elif line.startswith('calls='):
                calls = int(line[6:].split()[0])
            elif calls is not None:       # the line behind calls=
                if step:
                    n, cost = found.get(step.group(), (0, 0))
                    found[step.group()] = (n + calls, cost + int(line.split()[1]))
                calls = None
    return {name: (n, cost / n) for name, (n, cost) in found.items()}


def profile(config, lab, argv, what):
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, 'profile')
        p = run(config, lab.get('lo').client,
                ['valgrind', '-q', '--tool=callgrind', f'--callgrind-out-file={out}', *argv], what)
        if re.search(r'unhandled instruction|Fatal error at startup', p.stderr):
            raise Skip(f'valgrind does not work here: {p.stderr.splitlines()[0]}')
        expect(p.popen.returncode == 0 and 'done' in p.stdout, f'exit code {p.popen.returncode}', p)
        return costs(out), p


def compare(small, large, p):
    """Fails with each step whose cost grows."""
    expect(small and small.keys() == large.keys(), f'steps {sorted(small)}, then {sorted(large)}', p)
    grown = [f'{name}: {small[name][1]:.0f} instructions, then {large[name][1]:.0f}'
             for name in sorted(small) if large[name][1] > MORE * small[name][1] + MARGIN]
    expect(not grown, 'the cost grows with the number of objects:\n' + '\n'.join(grown), p)


def verbs(what, small=SMALL, large=LARGE):
    def function(config, lab):
        program = config.program('prog', 'scale-verbs')
        counted = [profile(config, lab, [program, what, str(n)], f'scale-verbs {what} {n}') for n in (small, large)]
        compare(counted[0][0], counted[1][0], counted[1][1])
    return function


MANY = 17000
SLOTS_MOST = 4                        # of the two processes
SLOWER = 5                            # transitions of the last QPs, at most


def many(argv=(), env=None):
    """Two processes have two lanes each, and when they have ended the same program gets the same slots, where no other one
    takes any."""
    def function(config, lab):
        used = []
        for _ in range(2):
            p = run(config, lab.get('lo').client, [config.program('prog', 'many-qps'), MANY, *argv], 'many-qps', env=env)
            found = re.findall(r'^(?:server|client): rate (\d+) (\d+) slots ([\d ]+)$', p.stdout, re.M)
            expect(p.popen.returncode == 0 and len(found) == 2, f'exit code {p.popen.returncode}', p)
            slots = [set(map(int, f[2].split())) for f in found]
            expect(all(len(s) > 1 for s in slots) and not slots[0] & slots[1], f'slots {slots}', p)
            expect('no shared memory' not in p.stderr and 'is refused' not in p.stderr, 'a lane without rings', p)
            expect(all(int(f[1]) * SLOWER > int(f[0]) for f in found), f'transitions to RTS a second: {found}', p)
            used.append(slots[0] | slots[1])
        expect(len(used[0]) <= SLOTS_MOST and used[0] == used[1], f'slots {used[0]}, then {used[1]}', p)
        return f'{found[0][0]} and {found[0][1]} transitions to RTS a second'
    return function


def cases():
    needs = ('valgrind',)
    return [
        Case('scale/qps', verbs('qps', large=LARGE_QPS), NORMAL, needs=needs),
        Case('scale/cqs', verbs('cqs'), NORMAL, needs=needs),
        Case('scale/mrs', verbs('mrs'), NORMAL, needs=needs),
        Case('scale/others', verbs('others'), NORMAL, needs=needs),
        Case('scale/xrc', verbs('xrc'), NORMAL, needs=needs),
        Case('scale/mcast', verbs('mcast', *GROUPS), NORMAL, needs=needs),
        Case('scale/many', many(), NORMAL, alone=True),
        Case('scale/many-shm', many(env={'ROCEMU_WIRE': 'shm', 'ROCEMU_LOG': 'info'}), NORMAL, alone=True),
        Case('scale/many-lanes', many((2,), env={'ROCEMU_LANES': '2'}), NORMAL, alone=True),
        Case('scale/many-window', many((1, 'mw')), NORMAL, alone=True),
    ]
