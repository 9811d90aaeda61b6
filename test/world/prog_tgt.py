# SPDX-License-Identifier: BSD-2-Clause
"""An iSCSI disk over RDMA (iSER): the target daemon tgtd, and libiscsi's tools as initiator."""
import os

import harness
from harness import expect
from program import Program, Run, finished

TARGET = 'iqn.2026-01.net.example:disk'
INITIATOR = 'iqn.2026-01.net.example:host'
DISK_BYTES = 32 << 20
TESTS = ('SCSI.Read10.Simple', 'SCSI.Write10.Simple', 'SCSI.Read16.Simple', 'SCSI.Write16.Simple',
         'SCSI.WriteSame10.Simple', 'SCSI.ReadCapacity16.Simple', 'SCSI.Inquiry.Standard', 'SCSI.TestUnitReady.Simple')


class Target:
    """tgtd with one disk, a file, for one initiator."""

    def __init__(self, world):
        self.world = world
        self.port = harness.new_port()
        # Its control socket is under /run by default.
        self.env = {'TGT_IPC_SOCKET': world.path('tgtd')}
        # Without huge pages it takes the pool from the heap; both are allocated at the first connection.
        self.daemon = world.start(world.server, ['tgtd', '-f', '--iscsi', f'portal=127.0.0.1:{harness.new_port()}',
                                                 '--iser', f'port={self.port},pool_sz_mb=32'], 'tgtd', self.env)
        self.daemon.wait_until(lambda: os.path.exists(world.path('tgtd.0')) and world.is_listened(self.port), 'it listened')
        with open(world.path('disk'), 'wb') as f:
            f.truncate(DISK_BYTES)
        self.tell('target', 'new', '-T', TARGET)
        self.tell('logicalunit', 'new', '--lun', '1', '-b', world.path('disk'))
        # Debian's requires both to match.
        self.tell('target', 'bind', '-I', 'ALL')
        self.tell('target', 'bind', '-Q', INITIATOR)

    def tell(self, mode, operation, *rest):
        p = self.world.plain(self.world.server, ['tgtadm', '--lld', 'iser', '--mode', mode, '--op', operation, '--tid', '1', *rest],
                             'tgtadm', self.env)
        finished(p, '')

    @property
    def url(self):
        return f'iser://{self.world.server.address}:{self.port}/{TARGET}/1'


def inquire(world):
    target = Target(world)
    p = world.start(world.client, ['iscsi-readcapacity16', '-i', INITIATOR, target.url], 'iscsi-readcapacity16')
    finished(p, r'^Total size:%d$' % DISK_BYTES)


def performance(world):
    target = Target(world)
    p = world.start(world.client, ['iscsi-perf', '-i', INITIATOR, '-b', 16, '-m', 8, '-t', 1, '-r', target.url], 'iscsi-perf')
    finished(p, '')
    expect('finished' in p.stdout and 'rror' not in p.stdout + p.stderr, 'no result', p, target.daemon)


def suite(world):
    """Some of libiscsi's tests: those that tgtd passes over TCP, too."""
    target = Target(world)
    ran = 0
    for name in TESTS:
        p = world.start(world.client, ['iscsi-test-cu', '-d', '-n', '-f', '-i', INITIATOR, '-t', name, target.url], name)
        p.wait()
        expect(p.popen.returncode == 0 and 'Run Summary' in p.stdout, f'{name} failed', p, target.daemon)
        ran += 1
    return f'{ran} tests'


PROGRAMS = [Program('tgt and libiscsi', [
    Run('iscsi-readcapacity16 over iSER', inquire),
    Run('iscsi-perf, random reads of 8 KiB over iSER', performance),
    Run(f'iscsi-test-cu over iSER: {len(TESTS)} of its tests', suite, larger=True),
], packages=('tgt', 'libiscsi-bin'), commands=('tgtd', 'tgtadm', 'iscsi-perf'),
    needs='the initiator bound by address and by name; `pool_sz_mb` where there are no huge pages')]
