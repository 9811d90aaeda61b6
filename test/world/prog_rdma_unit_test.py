# SPDX-License-Identifier: BSD-2-Clause
"""google/rdma-unit-test: its unit suite, built (unit/*.cc with Abseil, GoogleTest and magic_enum) somewhere under the path.

The device has a name of mlx5's, by which the suite skips the cases that it excuses for mlx5. What fails beside those is in
DEVIATIONS with the reason.
"""
import os
import re

from harness import Skip, expect
from program import Program, Run

PROGRAM = ('rdma_unit_test', 'run_unit_test')
GUARD_S = 3600
# Of before rdma-core 40, when libmlx5 did not look at the state. IBTA C10-96 and C10-97, libmlx5 since then, rxe, and rdma-core's
# own tests have an immediate error.
REFUSED = 'wants 0 of a post that the state does not allow'
DEVIATIONS = {
    'QpStateTest.PostSendReset': REFUSED,
    'QpStateTest.PostSendInit': REFUSED,
    'QpStateTest.PostSendRtr': REFUSED,
    'QpStateTest.PostRecvReset': REFUSED,
}
LEFT_OUT = {
    # Its READs have no timeout, and the QP that has to answer them is in ERR, where IBTA has it silent: it hangs.
    'MwType2AdvancedTest.Rebind',
}
# Expects silence for 2 s, times the multiplier, where timeout and retries end after 6.4 s.
SILENCE = ('LoopbackRcQpTest.SendWithInvalidateType1Rkey',)
# Two million messages one by one: minutes, so it has a process of its own.
LONG = ('LoopbackRcQpTest.SendManyWithOneOutstanding',)
# As many or more, by up to 256 threads that spin. Of a device with a name of rxe's, for which the suite has shorter loops.
SHORTENED = ('SrqTest.SendManyWithOneOutstanding', 'SrqMultiThreadTest.*', 'ThreadedWorkloadTest.*')
# The rest waits most of the time: several processes share it. 2 s times the multiplier is longer than timeout and retries.
SHARDS = 4
MULTIPLIER = 4


def program(path):
    for directory, _, files in os.walk(path):
        for name in PROGRAM:
            if name in files and os.access(os.path.join(directory, name), os.X_OK):
                return os.path.join(directory, name)
    raise Skip(f'no {PROGRAM[0]} under {path}: build it')


def groups():
    """Processes that run at the same time: (name, device, multiplier, cases) of each."""
    others = '-' + ':'.join((*sorted(LEFT_OUT), *SILENCE, *LONG, *SHORTENED))
    yield [(f'shard {i}', 'mlx5_0', MULTIPLIER, others) for i in range(SHARDS)] + [('silence', 'mlx5_0', 1, ':'.join(SILENCE))]
    yield [('long', 'mlx5_0', MULTIPLIER, ':'.join(LONG))]
    yield [('shortened', 'rxe0', MULTIPLIER, ':'.join(SHORTENED))]


def start(world, name, device, multiplier, cases):
    argv = [program(world.source), f'--device_name={device}', f'--completion_wait_multiplier={multiplier}', f'--gtest_filter={cases}']
    if device == 'rxe0':
        argv.append('--ipv4_only')      # without it the suite stops: rxe has no IPv6
    word, _, number = name.partition(' ')
    env = {'GTEST_TOTAL_SHARDS': str(SHARDS), 'GTEST_SHARD_INDEX': number} if word == 'shard' else {}
    before = world.server.device
    world.server.device = f'{device}={world.interface}'
    try:
        return world.start(world.server, argv, name, env)
    finally:
        world.server.device = before


def of_kind(p, kind):
    return set(re.findall(rf'^\[ *{kind} *\] ([\w./]+) \(\d+ ms\)$', p.stdout, re.M))


def suite(world):
    ran, skipped, known = 0, set(), set()
    for group in groups():
        for p in [start(world, *part) for part in group]:
            p.wait(GUARD_S)
            ended = re.search(r'^\[==========\] (\d+) tests? from \d+ test suites? ran', p.stdout, re.M)
            expect(ended, f'{p.name}: it did not get to its end', p)
            ran += int(ended.group(1))
            skipped |= of_kind(p, 'SKIPPED')
            failed = of_kind(p, 'FAILED')
            expect(failed <= set(DEVIATIONS), f'failed beside what is known: {", ".join(sorted(failed - set(DEVIATIONS)))}', p)
            known |= failed
    expect(known == set(DEVIATIONS), f'known to fail, but passed: {", ".join(sorted(set(DEVIATIONS) - known))}')
    return f'{ran - len(skipped) - len(known)} of {ran + len(LEFT_OUT)} cases pass, {len(skipped)} skipped, ' \
        f'{len(known)} known to fail, {len(LEFT_OUT)} left out'


PROGRAMS = [Program('google/rdma-unit-test', [Run('its unit suite', suite, places=('lo',))], source='rdma-unit-test',
                    needs='a device name of mlx5\'s, `--completion_wait_multiplier=4`')]
