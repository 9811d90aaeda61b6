# SPDX-License-Identifier: BSD-2-Clause
"""`rocemu conform` (lab/conform) against a device of rocemu. A row of FAMILIES is a file of cases and what has to run at the
device; cases of the file that need something else are left out."""
import json
import os
import re

from harness import NORMAL, QUICK, Case, Proc, Skip, expect

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'lab', 'conform', 'cases')

# What runs at the device: the peer of the cases' lines "conform", TCP port, command.
RC = ('rc_pingpong', 18515, 'while :; do ibv_rc_pingpong -g 0; done')
UC = ('uc_pingpong', 18516, 'while :; do ibv_uc_pingpong -g 0 -n 64 -p 18516; done')
UD = ('ud_pingpong', 18517, 'while :; do ibv_ud_pingpong -g 0 -n 64 -p 18517; done')
RPING = ('rping', None, 'rping -s -P -S 32768')  # a service of the CM

# A case that passes as soon as rping listens.
RPING_LISTENS = 'req/psn'
# On a busy machine a requester repeats a packet before the tester has answered it.
UNSURE_MAX = 2

FAMILIES = (
    ('in', QUICK, (RC,)),
    ('seq', QUICK, (RC,)),
    ('dup', NORMAL, (RC,)),
    ('op', NORMAL, (RC, UC)),
    ('len', NORMAL, (RC,)),
    ('cc', NORMAL, (RC, UC)),
    ('ud', NORMAL, (UD,)),
    ('req-pingpong', NORMAL, (RC,)),
    ('robust', NORMAL, (RC,)),
    ('req', NORMAL, (RPING,)),
    ('rnr-req', NORMAL, (RPING,)),
    ('rping', QUICK, (RPING,)),
    ('traits', NORMAL, (RC, RPING)),
)

# In a network namespace, where the ports are free. The servers are a process group, which ends by a signal.
SCRIPT = """ip link set lo up
ports=$1 servers=$2 rocemu=$3 listens=$4
shift 4
setsid "$rocemu" run ${LIKE:+--like "$LIKE"} -d lo -- sh -c "$servers" </dev/null >/dev/null 2>&1 &
group=$!
for port in $ports; do
    until grep -qsE "^ *[0-9]+: [0-9A-F]+:$port [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6; do sleep 0.01; done
done
while [ "$listens" ] && ! "$rocemu" conform --from 127.0.0.2 --only "$listens" 127.0.0.1 2>&1 | grep -q ^pass; do
    kill -0 $group || exit 1
    sleep 0.01
done
"$@"
result=$?
kill -TERM -$group
wait
exit $result"""


def case_ids(family, peers):
    """Of the cases of a file those that need one of the peers, or nothing."""
    ids = []
    with open(os.path.join(FILES, f'{family}.scenario'), encoding='utf-8') as f:
        for case in re.split(r'^case ', f.read(), flags=re.M)[1:]:
            if re.search(r'^ *conform \S+ \S+ (\S+)', case, re.M)[1] in peers:
                ids.append(case.split(':')[0])
    return ids


def conform(family, servers):
    def check(config, _lab):
        ids = case_ids(family, ['none', *(name for name, *_ in servers)])
        ports = ' '.join(f'{port:04X}' for _, port, _ in servers if port)
        only = [word for i in ids for word in ('--only', i)]
        p = Proc(['unshare', '-r', '-n', 'sh', '-c', SCRIPT, 'sh', ports,
                  ' & '.join(command for *_, command in servers), config.rocemu, RPING_LISTENS if RPING in servers else '',
                  config.rocemu, 'conform', '--from', '127.0.0.2',
                  '--known', 'rocemu', '--may-break-it', '--case', os.path.join(FILES, f'{family}.scenario'), *only, '127.0.0.1'])
        p.wait()
        if 'unshare:' in p.stderr:
            raise Skip('no network namespace of an ordinary user')
        verdict = {i: re.search(f'^(\\w+) +{re.escape(i)} ', p.stdout, re.M) for i in ids}
        unsure = [i for i in ids if verdict[i] and verdict[i][1] == 'inconclusive'][:UNSURE_MAX if RPING in servers else 0]
        differ = [i for i in ids if i not in unsure and (not verdict[i] or verdict[i][1] not in ('pass', 'measured', 'known'))]
        expect(p.popen.returncode == 0 and ids and not differ, f'cases differ: {" ".join(differ)}', p)
        return f'{len(ids)} cases'

    return check


# Devices that `rocemu run --like` emulates, and traits of each that have to be measured; '': rocemu itself.
LIKE = {
    '': ('recovery', 'nak_range', 'migreq', 'ack_credits', 'cnp', 'nak_cnp', 'probes', 'ack_timeout_floor', 'rnr_wait_floor',
         'extra_repetitions'),
    'rxe-6.1': ('recovery', 'nak_range', 'migreq', 'ack_credits', 'cnp', 'nak_cnp', 'probes', 'rnr_wait_floor', 'extra_repetitions'),
    'connectx-5': ('recovery', 'nak_range', 'nak_cnp', 'probes', 'ack_timeout_floor'),
    'connectx-6': ('recovery', 'nak_range', 'nak_cnp', 'probes', 'ack_timeout_floor', 'extra_repetitions'),
    'e810': ('recovery', 'nak_range', 'migreq', 'nak_cnp'),
}


def identify(like):
    def check(config, _lab):
        p = Proc(['unshare', '-r', '-n', 'sh', '-c', SCRIPT, 'sh', f'{RC[1]:04X}', f'{RC[2]} & {RPING[2]}', config.rocemu,
                  RPING_LISTENS, config.rocemu, 'conform', '--from', '127.0.0.2', '--identify', '--json', '-', '127.0.0.1'],
                 env={'LIKE': like})
        p.wait()
        if 'unshare:' in p.stderr:
            raise Skip('no network namespace of an ordinary user')
        expect(p.popen.returncode == 0, 'exit code', p)
        best = json.loads(p.stdout)['personalities'][0]
        traits = {t['name']: t for t in best['traits']}
        expect(best['name'] == (like or 'rocemu'), f'identified as {best["name"]}', p)
        expect(all(t['fits'] for t in traits.values()), 'traits differ', p)
        expect(not set(LIKE[like]) - set(traits), 'traits were not measured', p)
        return f'{best["fit"]} of {best["measured"]} traits'

    return check


def cases():
    return [Case(f'conform/{family}', conform(family, servers), level, needs=('unshare', 'ip', 'ibv_rc_pingpong', 'rping'))
            for family, level, servers in FAMILIES] + [
                Case(f'conform/identify-{like or "rocemu"}', identify(like), NORMAL, alone=True,
                     needs=('unshare', 'ip', 'ibv_rc_pingpong', 'rping'))
                for like in LIKE]
