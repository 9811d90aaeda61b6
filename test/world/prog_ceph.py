# SPDX-License-Identifier: BSD-2-Clause
"""Ceph with its messenger over RDMA: a monitor and OSDs that keep objects in memory on the server's side, and clients on
the other."""
import filecmp
import json
import os
import uuid

import harness
from harness import expect
from program import GUARD_S, Program, Run, finished

POOL = 'pool'
OBJECT_BYTES = 5_000_001
BENCH_OBJECTS = 50                    # of 4 MiB each: an OSD has 1 GiB
CONFIGURATION = '''[global]
fsid = {fsid}
mon_host = v2:{address}:{port}
public_addr = {address}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_type = async+rdma
ms_async_rdma_type = {kind}
ms_async_rdma_cm = {cm}
ms_async_rdma_device_name = {device}
run_dir = {directory}
crash_dir = {directory}
pid_file =
admin_socket = {directory}/$cluster-$name.asok
log_file = {directory}/$name.log
log_to_stderr = false
mon_data = {directory}/mon
osd_data = {directory}/osd.$id
osd_objectstore = memstore
osd_crush_chooseleaf_type = 0
osd_pool_default_size = {osds}
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
'''


class Cluster:
    """A monitor, OSDs that are up, and a pool with a copy of each object on each of them."""

    def __init__(self, world, osds=1, by_cm=False):
        self.world = world
        self.conf = world.path('ceph.conf')
        self.fsid = str(uuid.uuid4())
        self.daemons = []
        port = harness.new_port()
        with open(self.conf, 'w', encoding='ascii') as f:
            f.write(CONFIGURATION.format(
                fsid=self.fsid, address=world.server.address, port=port, osds=osds, directory=world.scratch,
                device=world.server.name,
                # Connections by rdma_cm are a type of their own. The other exchanges numbers by TCP.
                kind='iwarp' if by_cm else 'ib', cm='true' if by_cm else 'false'))
        monitor = f'[v2:{world.server.address}:{port}]'
        finished(world.plain(world.server, ['monmaptool', '--create', '--fsid', self.fsid, '--addv', 'a', monitor, world.path('monmap')],
                             'monmaptool'), '')
        self.daemon('ceph-mon', 'mon', 'a', '--monmap', world.path('monmap'))
        for number in range(osds):
            name = str(uuid.uuid4())
            self.tell('osd', 'new', name)
            self.daemon('ceph-osd', f'osd.{number}', str(number), '--osd-uuid', name)
        self.daemons[-1].wait_until(lambda: self.up() == osds, f'{osds} OSDs were up')
        self.tell('osd', 'pool', 'create', POOL)

    def daemon(self, command, directory, name, *of_files):
        """Its files, then itself. Clients retry until the monitor is up; the monitor reports when an OSD is."""
        os.mkdir(self.world.path(directory))
        argv = [command, '-c', self.conf, '-i', name]
        finished(self.world.start(self.world.server, argv + ['--mkfs', '--fsid', self.fsid, *of_files], f'{command} --mkfs'), '')
        self.daemons.append(self.world.start(self.world.server, argv + ['-f'], command))

    def tool(self, argv, guard_s=GUARD_S):
        """A client's program, to its end."""
        p = self.world.start(self.world.client, [argv[0], '-c', self.conf, *argv[1:]], ' '.join(argv[:3]))
        harness.wait_gone(p, guard_s)
        expect(not p.running(), f'{p.name}: hangs (guard {guard_s} s)', p, *self.daemons)
        expect(p.popen.returncode == 0, f'{p.name}: exit code {p.popen.returncode}', p, *self.daemons)
        return p

    def tell(self, *words):
        return self.tool(['ceph', *words])

    def rados(self, *words):
        return self.tool(['rados', '-p', POOL, *words])

    def up(self):
        return json.loads(self.tell('osd', 'stat', '--format', 'json').stdout)['num_up_osds']


def objects(by_cm):
    """What was put is what is got."""
    def run(world):
        cluster = Cluster(world, by_cm=by_cm)
        with open(world.path('put'), 'wb') as f:
            f.write(os.urandom(OBJECT_BYTES))
        cluster.rados('put', 'object', world.path('put'))
        cluster.rados('get', 'object', world.path('got'))
        expect(filecmp.cmp(world.path('put'), world.path('got'), shallow=False), 'the object is another', *cluster.daemons)
    return run


def bench(world):
    """Objects are written, copied by one OSD to the other, and read again; rados compares what it reads."""
    cluster = Cluster(world, osds=2)
    cluster.rados('bench', GUARD_S, 'write', '-t', 8, '--max-objects', BENCH_OBJECTS, '--no-cleanup')
    p = cluster.rados('bench', GUARD_S, 'seq', '-t', 8)
    finished(p, r'^Min latency\(s\): ')


PROGRAMS = [Program('Ceph', [
    Run('rados put and get, an object of 5 MB', objects(False)),
    Run('rados put and get, an object of 5 MB, connections by rdma_cm', objects(True),
        needs='`ms_type = async+rdma`, `ms_async_rdma_type = iwarp`, `ms_async_rdma_cm = true`'),
    Run('rados bench write, seq: objects of 4 MiB, copied between two OSDs', bench),
], packages=('ceph-osd', 'ceph-mon', 'ceph-common'), commands=('ceph-osd', 'ceph-mon', 'ceph', 'rados', 'monmaptool'), larger=True,
    needs='`ms_type = async+rdma`')]
