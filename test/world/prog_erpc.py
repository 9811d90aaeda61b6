# SPDX-License-Identifier: BSD-2-Clause
"""eRPC (RPCs over UD), from its source tree: its tests of client and server, and its program `latency`.

Built in PATH/build by `cmake -S . -B build -DTRANSPORT=infiniband -DROCE=on -DPERF=off` and `make latency small_msg_test ...`, with
`latency` in PATH/scripts/autorun_app_file. Its buffers are huge pages, by shmget().
"""
import os
import re
import signal
import time

import harness
from harness import Skip, expect
from program import GUARD_S, Program, Run, finished

BUILD = 'build'
# Without two: in multi_process_test a process ends when it has its answers, whether or not it has given those that others wait for.
# req_in_req_func_test moves about a GB by packets of 1 KiB and allows 20 s, too few for two processors that others use, too.
TESTS = ('create_session_test', 'small_msg_test', 'large_msg_test', 'packet_loss_test')
TESTS_GUARD_S = 600
UDP_PORTS = (31850, 31851)            # of session management; it takes 31850 to 31881 only
SECONDS = 4                           # of `latency`; the first two are not counted
HUGE_PAGE_KIB = 2048
TOTAL = r'(\d+) total samples'


def huge_pages(count):
    """Skip where fewer are free."""
    with open('/proc/meminfo', encoding='ascii') as f:
        info = dict(re.findall(r'^(\w+): +(\d+)', f.read(), re.M))
    free = int(info.get('HugePages_Free', 0)) if int(info.get('Hugepagesize', 0)) == HUGE_PAGE_KIB else 0
    if free < count:
        raise Skip(f'{free} huge pages of 2 MiB are free, not {count}')


def program(world, name):
    path = os.path.join(world.source, BUILD, name)
    if not os.access(path, os.X_OK):
        raise Skip(f'no {path}: build it')
    return path


def wait_gid(world, side):
    """It takes the GID of index 1: the link-local one, which is empty until its duplicate detection has ended."""
    end = time.monotonic() + GUARD_S
    while True:
        p = harness.run(world.config, side, ['ibv_devinfo', '-v'], 'ibv_devinfo')
        if re.search(r'GID\[ *1\]', p.stdout):
            return
        expect(time.monotonic() < end, 'no GID of index 1', p)
        time.sleep(harness.POLL_S)


def tests(world):
    """Each has its servers and its client in one process."""
    huge_pages(1024)
    names = [name for name in TESTS if os.path.exists(os.path.join(world.source, BUILD, name))]
    if not names:
        raise Skip(f'none of {" ".join(TESTS)} in {os.path.join(world.source, BUILD)}: build them')
    ran = 0
    for name in names:
        p = world.start(world.server, [program(world, name)], name)
        p.wait(TESTS_GUARD_S)
        passed = re.search(r'^\[  PASSED  \] (\d+) tests?\.$', p.stdout, re.M)
        expect(p.popen.returncode == 0 and passed, f'{name}: exit code {p.popen.returncode}', p)
        ran += int(passed.group(1))
    return f'{ran} tests of {", ".join(names)}'


def latency(world):
    """Requests of 64 to 1024 bytes, one after the other."""
    huge_pages(64)
    # The list of processes has a path relative to the working directory.
    home = world.path('eRPC')
    os.makedirs(os.path.join(home, 'scripts'))
    sides = (world.server, world.client)
    for side in sides:
        wait_gid(world, side)
    with open(os.path.join(home, 'scripts', 'autorun_process_file'), 'w', encoding='ascii') as f:
        f.writelines(f'{side.tcp} {port} 0\n' for side, port in zip(sides, UDP_PORTS))
    argv = ['env', f'--chdir={home}', program(world, 'latency'), '--numa_node=0', '--numa_0_ports=0', '--num_processes=2',
            '--num_server_processes=1', f'--test_ms={SECONDS * 1000}']
    server, client = [world.start(side, [*argv, f'--process_id={i}'], name)
                      for i, (side, name) in enumerate(zip(sides, ('server', 'client')))]
    line = finished(client, rf'^\d+ [\d. ]+\[\d+ new samples, \d+ total samples, {SECONDS - 1} seconds\]$')
    # Each second has requests of another size, and answers.
    expect('No new responses' not in client.stdout, 'a second without responses', client, server)
    server.signal(signal.SIGINT)
    server.wait()
    expect(server.popen.returncode == 0, f'server: exit code {server.popen.returncode}', server)
    return f'{re.search(TOTAL, line).group(1)} requests'


PROGRAMS = [Program('eRPC', [
    Run('its tests of client and server', tests, ('lo',)),
    Run(f'latency: requests of 64 to 1024 bytes for {SECONDS} s', latency),
], source='erpc', needs='huge pages (1024 of 2 MiB)')]
