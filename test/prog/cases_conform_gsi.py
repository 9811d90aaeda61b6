# SPDX-License-Identifier: BSD-2-Clause
"""rocemu conform: cases of QP 1 and of connections against an emulated device, by IPv4 and IPv6."""
import glob
import os
import re

from harness import QUICK, Case, Proc, Skip, expect

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lab', 'conform', 'cases')

# rocemu, the address of the device, the commands of lo, the program at the device; then rocemu conform. The device is ready when
# the first case passes.
SCRIPT = """rocemu=$1 address=$2 from=$3
ip link set lo up && eval "$4"
"$rocemu" run -d lo -- sh -c "trap 'kill \\$child; wait; exit' TERM; while :; do $5 & child=\\$!; wait \\$child; done" >/dev/null 2>&1 &
device=$!
shift 5
tries=0
until "$rocemu" conform --from "$from" --only "$1" "$address" | grep -q ^pass || [ $tries = 50 ]; do tries=$((tries + 1)); done
shift
"$rocemu" conform --from "$from" "$@" "$address"
result=$?
kill $device
wait
exit $result"""

V4 = ('127.0.0.1', '127.0.0.2', 'true')
V6 = ('fd00::1', 'fd00::2',
      'ip address flush dev lo && ip address add fd00::1/128 dev lo nodad && ip link add peer0 type veth peer name peer1 && '
      'ip link set peer0 up && ip link set peer1 up && ip address add fd00::2/128 dev peer0 nodad')

# Packets that a raw socket of IPv4 sends.
OF_IPV4 = ('gsi/ip-options', 'gsi/fragment', 'gsi/df', 'gsi/lengths', 'gsi/udp-checksum-wrong')


def case_ids(family):
    with open(os.path.join(FILES, f'{family}.scenario'), encoding='utf-8') as f:
        return [case.split(':')[0] for case in f.read().split('\ncase ')[1:]]


def conform(network, program, first, families, unsupported=()):
    """All cases of the families pass, but for those that the device cannot have."""
    def check(config, _lab):
        ids = [i for family in families for i in case_ids(family)]
        only = [word for family in families for word in ('--only', f'{family}/*')]
        p = Proc(['unshare', '-r', '-n', 'sh', '-c', SCRIPT, 'sh', config.rocemu, *network, program, first, *only])
        p.wait()
        if 'unshare:' in p.stderr:
            raise Skip('no network namespace of an ordinary user')
        verdict = {i: re.search(f'^(\\w+) +{re.escape(i)} ', p.stdout, re.M) for i in ids}
        wrong = [i for i in ids if not verdict[i] or
                 verdict[i][1] not in (('unsupported',) if i in unsupported else ('pass', 'measured'))]
        expect(not wrong and p.popen.returncode == 0, f'differ: {wrong}', p)
        return f'{len(ids)} cases'

    return check


def all_files_known(_config, _lab):
    """No case has the ID of another one."""
    ids = [i for path in glob.glob(os.path.join(FILES, '*.scenario')) for i in case_ids(os.path.basename(path)[:-len('.scenario')])]
    expect(len(ids) == len(set(ids)), f'twice: {sorted(i for i in set(ids) if ids.count(i) > 1)}')
    return f'{len(ids)} cases'


def cases():
    needs = ('unshare', 'ip', 'rping')
    return [
        Case('conform/ids', all_files_known, QUICK),
        Case('conform/gsi', conform(V4, 'rping -s -P -S 32768 -a 127.0.0.1', 'cm/connect', ('gsi', 'cm'), ('gsi/hello-v6',)), QUICK, needs=needs),
        Case('conform/gsi-v6', conform(V6, 'rping -s -P -S 32768 -a fd00::1', 'cm/connect', ('gsi', 'cm'), OF_IPV4), QUICK, needs=needs),
    ]
