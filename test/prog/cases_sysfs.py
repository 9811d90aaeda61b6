# SPDX-License-Identifier: BSD-2-Clause
"""The files of /sys/class/infiniband: all that docs/sysfs.md lists, and the programs that read them."""
import os
import re
import subprocess
import sys
import urllib.request

from harness import NORMAL, QUICK, Case, Failure, Side, Skip, expect, new_port, run, sanitizer_env, start

SIDE = Side('dev0=lo', '127.0.0.1')
CLASS = '/sys/class/infiniband'
DOCS = os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'sysfs.md')
ADDRESSES = {'0000:0000:0000:0000:0000:ffff:7f00:0001', '0000:0000:0000:0000:0000:0000:0000:0001'}


def output(config, *argv, options=()):
    p = run(config, SIDE, argv, options=options)
    expect(p.popen.returncode == 0, 'failed', p)
    return p.stdout


def table():
    """(pattern, whether rocemu has it) of each file in the page."""
    rows = []
    with open(DOCS, encoding='utf-8') as f:
        for line in f:
            columns = [c.strip() for c in line.split('|')]
            if len(columns) == 7 and columns[4] in ('yes', 'no'):
                rows += [(name, columns[4] == 'yes') for name in re.findall('`([^`]*)`', columns[1])]
    if len(rows) < 30:
        raise Failure(f'{DOCS} has {len(rows)} rows')
    return rows


LIST = f'''
import os
top, verbs = '{CLASS}/dev0', '{CLASS}_verbs'
for path, dirs, files in os.walk(top):
    print(*(os.path.relpath(os.path.join(path, name), top) for name in dirs + files), sep='\\n')
for name in os.listdir(verbs):
    print(os.path.join(verbs, name))
    if os.path.isdir(os.path.join(verbs, name)):
        print(*(os.path.join(verbs, name, entry) for entry in os.listdir(os.path.join(verbs, name))), sep='\\n')
print(*(p for p in ('{CLASS}_mad', '{CLASS}_cm') if os.path.exists(p)), sep='\\n')
'''


def files(config, _lab):
    """Each file of the table is there or not, as it has it, and there are no others."""
    there = set(output(config, sys.executable, '-c', LIST).split('\n')) - {''}
    pattern = {name: re.compile(re.escape(name).replace(r'\*', '[^/]*') + '$') for name, _ in table()}
    for name, has in table():
        found = any(pattern[name].match(f) for f in there)
        expect(found == has, f'{name}: the page has {has}, it is {found}')
    known = [pattern[name] for name, has in table() if has]
    for name in there:
        below = any(p.match(name) for p in known) or name.startswith('device/')
        above = any(other.startswith(name + '/') for other in there)
        expect(below or above, f'{name} is not on the page')


def exporter_files(config, _lab):
    """What node_exporter requires: without one of these files, or with another form, it shows no device."""
    text = output(config, 'sh', '-c', f"cd {CLASS}/dev0; grep -H '' board_id fw_ver hca_type ports/1/state ports/1/phys_state ports/1/rate "
                  'ports/1/counters/* ports/1/hw_counters/*')
    value = dict(line.split(':', 1) for line in text.splitlines())
    for name in ('board_id', 'fw_ver', 'hca_type'):
        expect(value.get(name), f'no {name}')
    expect(re.fullmatch(r'4: ACTIVE', value['ports/1/state']) and re.fullmatch(r'5: LinkUp', value['ports/1/phys_state']), text)
    expect(re.fullmatch(r'\d+(\.\d+)? Gb/sec \(\d+X [A-Z]+\)', value['ports/1/rate']), value['ports/1/rate'])
    counters = {name: text for name, text in value.items() if 'counters/' in name}
    expect(len(counters) > 50 and all(text.isdigit() for text in counters.values()), counters)


def metrics_of(port, p):
    """The page of metrics, once the exporter serves it."""
    url = f'http://127.0.0.1:{port}/metrics'
    page = []

    def served():
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                page.append(answer.read().decode())
        except OSError:
            return False
        return True

    p.wait_until(served, 'it served metrics')
    return page[0]


def node_exporter(config, _lab):
    """It makes system calls itself, so it needs the mounts."""
    port = new_port()
    p = start(config, SIDE, ['prometheus-node-exporter', '--collector.disable-defaults', '--collector.infiniband',
                             f'--web.listen-address=127.0.0.1:{port}'], 'node_exporter', options=['--mount-paths'])
    try:
        text = metrics_of(port, p)
        for line in ('node_scrape_collector_success{collector="infiniband"} 1', 'node_infiniband_state_id{device="dev0",port="1"} 4',
                     'node_infiniband_port_packets_received_total{device="dev0",port="1"} 0'):
            expect(line in text, f'no "{line}"', p)
        expect('board_id="ROC0000000001"' in text and 'hca_type="rocemu"' in text, 'no info', p)
    except Failure:
        if '--mount-paths:' in p.stderr:
            raise Skip(p.stderr.strip()) from None
        raise
    finally:
        p.kill()


def ibstat(config, _lab):
    text = output(config, 'ibstat')
    for line in ("CA 'dev0'", 'CA type: rocemu', 'Number of ports: 1', 'State: Active', 'Physical state: LinkUp', 'Rate: 10',
                 'Link layer: Ethernet'):
        expect(line in text, text)
    expect('CA' in output(config, 'ibstat', '-l') or 'dev0' in output(config, 'ibstat', '-l'), 'no list')


def ibstatus(config, _lab):
    text = output(config, 'ibstatus')
    for line in ("Infiniband device 'dev0' port 1 status:", 'default gid:\t 0000:0000:0000:0000:0000:ffff:7f00:0001',
                 'state:\t\t 4: ACTIVE', 'phys state:\t 5: LinkUp', 'rate:\t\t 10 Gb/sec (1X QDR)', 'link_layer:\t Ethernet'):
        expect(line in text, text)


def devinfo(config, _lab):
    text = output(config, 'ibv_devinfo', '-d', 'dev0')
    expect(re.search(r'board_id:\s+ROC0000000001', text) and re.search(r'fw_ver:\s+\S', text), text)


def show_gids(config, _lab):
    """What the script of Mellanox's OFED does."""
    script = (f'for p in {CLASS}/*/ports/*; do for f in $p/gids/*; do gid=$(cat $f); '
              'case $gid in 0000:0000:0000:0000:0000:0000:0000:0000|fe80:0000:0000:0000:0000:0000:0000:0000) continue;; esac; '
              'n=${f##*/}; echo "$n $gid $(cat $p/gid_attrs/ndevs/$n) $(cat $p/gid_attrs/types/$n)"; done; done')
    rows = [line.split(None, 3) for line in output(config, 'sh', '-c', script).splitlines()]
    expect({row[1] for row in rows} == ADDRESSES and all(row[2:] == ['lo', 'RoCE v2'] for row in rows), rows)


# A PCI function for lo, in a private /sys.
PCI = '''
mount -t tmpfs none /sys && cd /sys && mkdir -p devices/pci0000:00/0000:00:05.0/net/lo class/net && \\
    ln -s ../../../0000:00:05.0 devices/pci0000:00/0000:00:05.0/net/lo/device && \\
    ln -s ../../devices/pci0000:00/0000:00:05.0/net/lo /sys/class/net/lo && exec "$@"
'''


def lstopo(config, _lab):
    if os.geteuid() != 0:
        raise Skip('mounting needs root')
    argv = ['unshare', '-m', 'sh', '-c', PCI, 'sh', config.rocemu, 'run', '--device', 'dev0=lo', '--', 'lstopo-no-graphics', '--of', 'console']
    p = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **sanitizer_env(config)})
    if 'mount:' in p.stderr or 'unshare:' in p.stderr:
        raise Skip(p.stderr.strip())
    expect(p.returncode == 0 and 'OpenFabrics "dev0"' in p.stdout, f'{p.stdout}\n{p.stderr}')


def cases():
    return [
        Case('sysfs/files', files, QUICK),
        Case('sysfs/exporter-files', exporter_files, NORMAL),
        Case('sysfs/node_exporter', node_exporter, NORMAL, needs=('prometheus-node-exporter',)),
        Case('sysfs/ibstat', ibstat, NORMAL, needs=('ibstat',)),
        Case('sysfs/ibstatus', ibstatus, NORMAL, needs=('ibstatus',)),
        Case('sysfs/ibv_devinfo', devinfo, NORMAL),
        Case('sysfs/show_gids', show_gids, NORMAL),
        Case('sysfs/lstopo', lstopo, NORMAL, needs=('lstopo-no-graphics',)),
    ]
