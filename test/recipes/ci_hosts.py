#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rocemu hosts, as an ordinary user.

usage: ci_hosts.py MESON BUILD_DIR PREFIX [PATTERN]...
"""
import os
import re
import select
import shutil
import signal
import subprocess
import sys

import ci_tree
from ci_tree import commands

NO_NAMESPACES = ['unshare', '-Ur', 'sh', '-c', 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', 'sh',
                 'setpriv', '--bounding-set=-sys_admin', '--inh-caps=-all']


def hosts(*args, first=(), env=None):
    return commands.Result(*ci_tree.as_user(), *first, 'rocemu', 'hosts', *args, env=env)


def shell(script, *options, first=(), env=None):
    return hosts(*options, '--', 'bash', '-euc', script, first=first, env=env)


# ---- options ----


def options__help__usage():
    assert 'usage: rocemu hosts' in hosts('--help').expect(0).out


def options__no_command__2():
    hosts().expect(2, 'no command').one_line()
    hosts('--on', '1').expect(2, 'no command').one_line()


def options__bad_numbers__2_and_what_was_expected():
    for option, bad in (('--count', '1'), ('--count', '10'), ('--count', '2x'), ('--mtu', '1279'), ('--mtu', '65536'),
                        ('--mtu', '-1'), ('--mtu', ''), ('--on', '0')):
        hosts(option, bad, 'true').expect(2, option, f'"{bad}"', 'expected a number from').one_line()


def options__those_of_the_command__not_taken():
    assert hosts('sh', '-c', 'echo $1', 'sh', '--help').expect(0).out == '--help\n'


# ---- the network ----


def network__two_hosts__reach_each_other_only():
    out = shell('''
        echo $ROCEMU_HOST1 $ROCEMU_HOST2 $(hostname) $(rocemu hosts --on 2 hostname)
        ip -br address show dev eth0
        cat /sys/class/net/*/address | wc -l
        ip route show default''').expect(0).out.splitlines()
    assert out[0] == '10.77.0.1 10.77.0.2 host1 host2', out
    assert '10.77.0.1/24' in out[1] and ('fd77::1/64' in out[1] or not os.path.exists('/proc/net/if_inet6')), out
    assert out[2:] == ['2'], out    # interfaces: lo, eth0


def network__count_and_mtu__as_asked():
    out = shell('echo ${ROCEMU_HOST9-none}; rocemu hosts --on 9 -- rocemu devices', '--count', '9', '--mtu', '9000').expect(0).out
    assert re.search(r'^10\.77\.0\.9\n', out) and re.search(r'rocemu_eth0 .* 9000 +4096 .*:10\.77\.0\.9,', out), out


def network__every_host__reaches_every_other():
    shell('''
        for from in 1 2 3; do
            for to in 1 2 3; do
                # A port where nobody is: the refusal comes from the other host.
                text=$(rocemu hosts --on $from -- bash -c "echo >/dev/tcp/10.77.0.$to/9" 2>&1 || true)
                [[ $text == *"Connection refused"* ]]
            done
        done''', '--count', '3').expect(0)


def network__user__keeps_id_and_manages_links():
    out = shell('id -u; ip link set eth0 mtu 1400; rocemu hosts --on 2 -- ip link set eth0 down; cat /sys/class/net/eth0/mtu').expect(0).out
    assert out == f'{ci_tree.USER_ID if os.geteuid() == 0 else os.getuid()}\n1400\n', out


def network__working_directory__kept():
    out = shell('cd /usr/share; rocemu hosts --on 2 -- pwd').expect(0).out
    assert out == '/usr/share\n', out


def network__rdma_between_hosts__works():
    out = shell('''
        rocemu hosts --on 2 -- rocemu run -- ibv_rc_pingpong -g 0 >server.txt &
        until rocemu hosts --on 2 -- ss -Hltn | grep -q :18515; do sleep 0.1; done
        rocemu run -- ibv_rc_pingpong -g 0 $ROCEMU_HOST2
        wait $!''').expect(0).out
    assert '1000 iters' in out, out


# ---- the end ----


def end__code_or_signal__passed_on():
    shell('exit 77').expect(77)
    shell('kill -TERM $$').expect(-signal.SIGTERM)
    hosts('--', 'rocemu-no-such-program').expect(127, 'rocemu-no-such-program').one_line()
    shell('rocemu hosts --on 2 -- sh -c "exit 3"').expect(3)


def end__of_the_command__hosts_are_gone():
    for pid in shell('echo $ROCEMU_HOSTS').expect(0).out.split():
        assert not os.path.exists(f'/proc/{pid}'), pid


def end__killed__hosts_are_gone():
    with subprocess.Popen([*ci_tree.as_user(), 'rocemu', 'hosts', '--', 'sh', '-c', 'echo $ROCEMU_HOSTS; exec cat'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        holders = [os.pidfd_open(int(pid)) for pid in p.stdout.readline().split()]
        assert len(holders) == 2
        p.kill()
        for fd in holders:      # readable when the process has ended
            assert select.select([fd], [], [], 60)[0]
            os.close(fd)
        p.stdin.close()


# ---- what cannot be ----


def refused__no_user_namespaces__says_so_and_what_to_do():
    shell('true', first=NO_NAMESPACES).expect(1, 'sysctl -w user.max_user_namespaces', 'rocemu hosts --loopback').one_line()


def refused__no_ip_command__names_the_package():
    r = commands.Result(*ci_tree.as_user(), 'env', 'PATH=/nonexistent', shutil.which('rocemu'), 'hosts', 'true')
    r.expect(1, 'install iproute2').one_line()


def on__outside_of_hosts__1():
    hosts('--on', '1', 'true').expect(1, 'ROCEMU_HOSTS is not set').one_line()


def on__host_that_is_not_there__2():
    shell('rocemu hosts --on 3 -- true').expect(2, 'there are 2 hosts, no host 3').one_line()


def on__hosts_that_are_gone__1():
    # Another process's ID, and values that are no ID.
    hosts('--on', '1', 'true', env={'ROCEMU_HOSTS': str(os.getpid())}).expect(1, 'has ended').one_line()
    hosts('--on', '1', 'true', env={'ROCEMU_HOSTS': '999999999999'}).expect(1, 'ROCEMU_HOSTS').one_line()
    hosts('--on', '1', 'true', env={'ROCEMU_HOSTS': 'x'}).expect(1, 'ROCEMU_HOSTS').one_line()
    hosts('--on', '1', 'true', env={'ROCEMU_HOSTS': ' '}).expect(2, 'no host 1').one_line()


# ---- loopback ----


def loopback__no_user_namespaces__same_script_works():
    out = shell('''
        echo $ROCEMU_HOST1 $ROCEMU_HOST2
        rocemu hosts --on 2 -- rocemu run -- ibv_rc_pingpong -d rocemu_eth0 -g 0 >server.txt &
        until rocemu hosts --on 2 -- ss -Hltn | grep -q :18515; do sleep 0.1; done
        rocemu run -- ibv_rc_pingpong -d rocemu_eth0 -g 0 $ROCEMU_HOST2
        wait $!''', '--loopback', first=NO_NAMESPACES).expect(0).out
    assert out.startswith('127.0.0.1 127.0.0.2\n') and '::ffff:127.0.0.2' in out and '1000 iters' in out, out


def loopback__host_that_is_not_there__2():
    shell('rocemu hosts --on 3 -- true', '--loopback').expect(2, 'there are 2 hosts, no host 3').one_line()


if __name__ == '__main__':
    sys.exit(ci_tree.run_cases(globals(), ('ip', 'ss', 'setpriv', 'unshare', 'ibv_rc_pingpong')))
