# SPDX-License-Identifier: BSD-2-Clause
"""The files that programs look at beside the library: /sys/class/infiniband and its like under `rocemu run`."""
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness import (HANG_GUARD_S, NOBODY, NORMAL, POLL_S, QUICK, Case, Proc, Side, Skip, VethPair, expect, may_make_netns,
                     need_user, new_port, run, sanitizer_env, start, users)

SIDE = Side('dev0=lo', '127.0.0.1')
DEV = '/sys/class/infiniband/dev0'


def output(config, *argv, side=SIDE, **more):
    p = run(config, side, argv, **more)
    expect(p.popen.returncode == 0 and not p.stderr, f'{argv[0]} failed', p)
    return p.stdout


def shell(config, command, **more):
    return output(config, 'sh', '-c', command, **more)


def contents(config, _lab):
    """The files and the library agree, in the kernel's format."""
    values = shell(config, f'cd {DEV}/ports/1 && cat state phys_state link_layer lid pkeys/0 gids/0 gid_attrs/types/0 '
                           'gid_attrs/ndevs/0 counters/port_xmit_data').split('\n')
    expect(values == ['4: ACTIVE', '5: LinkUp', 'Ethernet', '0x0', '0xffff', '0000:0000:0000:0000:0000:ffff:7f00:0001',
                      'RoCE v2', 'lo', '0', ''], f'{values}')
    expect(re.fullmatch(r'\d+(\.5)? Gb/sec \(\dX [A-Z]DR\)\n', shell(config, f'cat {DEV}/ports/1/rate')), 'rate')
    guid = shell(config, f'cat {DEV}/node_guid').strip()
    info = output(config, 'ibv_devinfo', '-d', 'dev0')
    expect(f'node_guid:\t\t\t{guid}' in info, f'{guid} is not what ibv_devinfo says:\n{info}')
    expect(shell(config, f'cat {DEV}/fw_ver').strip() in info, 'fw_ver')
    expect(shell(config, f'ls {DEV}/device/net') == 'lo\n', 'device/net')
    uverbs = shell(config, 'ls /sys/class/infiniband_verbs | grep uverbs').strip()
    expect(shell(config, f'cat /sys/class/infiniband_verbs/{uverbs}/ibdev') == 'dev0\n', 'ibdev')
    expect(shell(config, 'cat /sys/class/infiniband_verbs/abi_version') == '6\n', 'abi_version')


def tools(config, _lab):
    """ls, cat, find, test, readlink and Python see them, from children of children, too."""
    expect('dev0' in shell(config, 'ls -l /sys/class/infiniband'), 'ls')
    expect('dev0' in shell(config, 'ls /dev/infiniband'), 'ls /dev')
    expect(shell(config, f'sh -c "sh -c \\"cat {DEV}/node_type\\""') == '1: CA\n', 'grandchild')
    expect(shell(config, f'readlink -f {DEV}') == '/sys/devices/virtual/infiniband/dev0\n', 'readlink -f')
    expect(shell(config, f'test -d {DEV} && test -L {DEV} && test -r {DEV}/fw_ver && test -c /dev/infiniband/dev0 '
                         '&& echo yes') == 'yes\n', 'test')
    expect(int(shell(config, f'find {DEV}/ -type f | wc -l')) > 30, 'find')
    python = ('import os; d = "/sys/class/infiniband"; print(os.listdir(d), [e.name for e in os.scandir(d)],'
              'os.path.realpath(d + "/dev0"), os.access("/dev/infiniband/dev0", os.R_OK | os.W_OK),'
              'open(d + "/dev0/node_type").read().strip())')
    names = [*(os.listdir('/sys/class/infiniband') if os.path.isdir('/sys/class/infiniband') else ()), 'dev0']
    said = output(config, sys.executable, '-c', python)
    if len(names) == 1:
        expect(said == f"{names} {names} /sys/devices/virtual/infiniband/dev0 True 1: CA\n", said)


def functions(config, _lab):
    program = config.program('prog', 'paths-check')
    text = output(config, program, 'dev0')
    output(config, program, 'dev0', 'child')
    return text.strip()


def off(config, _lab):
    p = run(config, SIDE, ['sh', '-c', f'echo "$LD_PRELOAD"; test -e {DEV}'], env={'ROCEMU_PATHS': 'off'})
    expect(p.popen.returncode == 1 and 'rocemu-paths' not in p.stdout, 'not off', p)
    p = run(config, SIDE, ['true'], env={'ROCEMU_PATHS': 'perhaps'})
    expect(p.popen.returncode == 2 and 'ROCEMU_PATHS: expected' in p.stderr, 'a wrong value is taken', p)


def nested(config, _lab):
    """Inside another: the inner one's devices, and only them."""
    text = output(config, config.rocemu, 'run', '--device', 'inner=lo', '--', 'ls', '/sys/class/infiniband', '/dev/infiniband')
    expect('inner' in text and 'dev0' not in text, text)


def root_of(p):
    p.wait_until(lambda: p.stdout.endswith('\n'), 'it said where')
    return p.stdout.strip()


def wait_for(p, condition, what):
    """Of a process that may have ended."""
    end = time.monotonic() + HANG_GUARD_S
    while not condition():
        expect(time.monotonic() < end, what, p)
        time.sleep(POLL_S)


def full_root_of(p):
    """The same when the tree is full: programs wait for that when they look at it."""
    root = root_of(p)
    wait_for(p, lambda: not os.path.exists(root + '/filling'), f'{root} is not full')
    return root


def gone(p, root):
    wait_for(p, lambda: not os.path.exists(root), f'{root} is still there')


def removed(config, _lab):
    """The tree goes with the last process, however that ends, and not before."""
    say = 'echo $ROCEMU_PATHS;'
    p = run(config, SIDE, ['sh', '-c', say + 'true'])
    gone(p, root_of(p))
    p = start(config, SIDE, ['sh', '-c', say + 'exec sleep 1000'], 'sleep')
    try:
        root = full_root_of(p)
        expect(os.path.isdir(root + DEV), f'no {root}', p)
        p.signal(signal.SIGKILL)
        p.popen.wait()
        gone(p, root)
    finally:
        p.kill()
    with tempfile.TemporaryDirectory() as scratch:
        fifo = os.path.join(scratch, 'go')
        os.mkfifo(fifo)
        # A child that outlives its parent, waiting for us.
        p = run(config, SIDE, ['sh', '-c', f'{say} (read x < {fifo}; cat {DEV}/node_type > {scratch}/said) > /dev/null 2>&1 &'])
        root = full_root_of(p)
        expect(os.path.isdir(root + DEV), f'no {root} for the child', p)
        with open(fifo, 'w', encoding='ascii') as f:
            f.write('go\n')
        gone(p, root)
        with open(os.path.join(scratch, 'said'), encoding='ascii') as f:
            expect(f.read() == '1: CA\n', 'the child did not see it', p)


def waits_for_lock(pid):
    with open('/proc/locks', encoding='ascii') as f:
        return any('->' in line and line.split()[5] == str(pid) for line in f)


def filling(config, _lab):
    """The tree is filled while the program starts: its first look at it waits for that, and for no longer."""
    library = os.path.join(config.build, 'src', 'interpose', 'librocemu-paths.so')
    preload = ' '.join(filter(None, (sanitizer_env(config).get('LD_PRELOAD'), library)))
    with tempfile.TemporaryDirectory() as root:
        for end in ('full', 'its process has ended'):
            with open(root + '/filling', 'w', encoding='ascii') as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                p = Proc(['ls', '/sys/class/infiniband'], env={**sanitizer_env(config), 'LD_PRELOAD': preload, 'ROCEMU_PATHS': root})
                try:
                    p.wait_until(lambda: waits_for_lock(p.pid), 'it waited')
                    os.makedirs(f'{root}/sys/class/infiniband/dev0', exist_ok=True)
                    if end == 'full':
                        os.unlink(root + '/filling')
                    lock.close()
                    expect(p.wait() == 0 and 'dev0' in p.stdout.split(), f'{end}: it did not see the device', p)
                finally:
                    p.kill()
            shutil.rmtree(root + '/sys')


def changes(config, _lab):
    """What the network does shows in the files."""
    why_not = may_make_netns()
    if why_not:
        raise Skip(why_not)
    veth = VethPair(1500)
    side = Side('dev0=veth0', veth.v4[0], veth.names[0])
    p = start(config, side, ['sh', '-c', 'echo $ROCEMU_PATHS; exec sleep 1000'], 'sleep')
    try:
        port = full_root_of(p) + DEV + '/ports/1/'

        def says(name, text):
            try:
                with open(port + name, encoding='ascii') as f:
                    return text in f.read()
            except FileNotFoundError:
                return False

        def index():
            return [n for n in range(count) if says(f'gids/{n}', '0a61:0001')]

        count = len(os.listdir(port + 'gids'))
        veth.ip('-n', veth.names[0], 'address', 'add', '10.97.0.1/24', 'dev', 'veth0')
        p.wait_until(index, 'the GID was there')
        at = index()[0]
        p.wait_until(lambda: says(f'gid_attrs/types/{at}', 'RoCE v2'), 'its type was there')
        veth.ip('-n', veth.names[0], 'address', 'del', '10.97.0.1/24', 'dev', 'veth0')
        p.wait_until(lambda: says(f'gids/{at}', '0000:0000:0000:0000:0000:0000:0000:0000'), 'the GID was gone')
        p.wait_until(lambda: os.path.getsize(f'{port}gid_attrs/types/{at}') == 0, 'its type was gone')
        expect(len(os.listdir(port + 'gids')) == count, 'the table has another length', p)
        veth.ip('-n', veth.names[1], 'link', 'set', 'veth0', 'down')
        p.wait_until(lambda: says('state', '1: DOWN'), 'the port was down')
        veth.ip('-n', veth.names[1], 'link', 'set', 'veth0', 'up')
        p.wait_until(lambda: says('state', '4: ACTIVE'), 'the port was up')
    finally:
        p.kill()
        veth.close()


def gid_layout(config, _lab):
    """The files have the table that the library has, of each layout."""
    for layout, used in (('common', {0: 2, 1: 2, 3: 2}), ('mlx5', {2: 1, 3: 2, 4: 1, 5: 2}), ('rxe', {1: 2, 2: 2})):
        text = shell(config, f'cd {DEV}/ports/1 && ibv_devinfo -v -d dev0 && ls gids gid_attrs/types gid_attrs/ndevs | wc -w && '
                             "grep -H '' gids/* gid_attrs/types/* gid_attrs/ndevs/*", options=('--gid-layout', layout))
        expect('gid_tbl_len:\t\t64' in text and f'\n{3 * 64 + 3}\n' in text, text)
        said = {int(n): int(v) for n, v in re.findall(r'GID\[ *(\d+)\]:\t\t[^,\n]*, RoCE v(\d)', text)}
        gids = dict(re.findall(r'^gids/(\d+):([0-9a-f:]+)$', text, re.M))
        types = {int(n): int(v) for n, v in re.findall(r'^gid_attrs/types/(\d+):(?:IB/)?RoCE v(\d)$', text, re.M)}
        ndevs = re.findall(r'^gid_attrs/ndevs/(\d+):lo$', text, re.M)
        expect(types == used and said in (used, {}), f'{layout}: {types}, {said}')
        expect({int(n) for n in ndevs} == set(used), f'{layout}: {ndevs}')
        expect({int(n) for n, gid in gids.items() if gid.strip('0:')} == set(used), f'{layout}: {gids}')


def gid_indices(config, _lab):
    """Programs with any of the indices that hardware's users have built in find a GID; RoCE v1's are good as well."""
    for layout, indices in (('common', (0, 1, 3)), ('mlx5', (2, 3))):
        for index in indices:
            port, options = new_port(), ('--gid-layout', layout)
            argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', index, '-n', 10, '-p', port]
            server = start(config, SIDE, argv, 'server', options=options)
            try:
                server.wait_listening(port)
                client = run(config, SIDE, argv + ['127.0.0.1'], 'client', options=options)
                expect(client.popen.returncode == 0 and server.wait() == 0, f'-g {index} failed', server, client)
            finally:
                if server.running():
                    server.kill()


def real_devices(config, _lab):
    """The machine's devices stay visible: tested with a private /sys that has a device."""
    if os.geteuid() != 0:
        raise Skip('mounting needs root')
    script = ('mount -t tmpfs none /sys && mkdir -p /sys/class/infiniband/mlx9_0/ports /sys/class/infiniband_verbs/uverbs4 '
              '&& echo real > /sys/class/infiniband/mlx9_0/node_desc && exec "$@"')
    wrapped = ['unshare', '-m', 'sh', '-c', script, 'sh', config.rocemu, 'run', '--device', 'dev0=lo', '--', 'sh', '-c',
               'ls /sys/class/infiniband /sys/class/infiniband_verbs; cat /sys/class/infiniband/*/node_desc; '
               'ls -d /sys/class/infiniband/mlx9_0/ports; readlink -f /sys/class/infiniband/mlx9_0']
    p = subprocess.run(wrapped, capture_output=True, text=True, env={**os.environ, **sanitizer_env(config)}, check=False)
    if 'mount:' in p.stderr or 'unshare:' in p.stderr:
        raise Skip(p.stderr.strip())
    want = ['/sys/class/infiniband:', 'dev0', 'mlx9_0', '', '/sys/class/infiniband_verbs:', 'abi_version', 'uverbs4',
            'uverbs5', 'dev0', 'real', '/sys/class/infiniband/mlx9_0/ports', '/sys/class/infiniband/mlx9_0']
    expect(p.stdout.splitlines() == want and not p.stderr, f'{p.stdout}\n{p.stderr}')


PARENT = '''
mount -t tmpfs none /sys && cd /sys && mkdir -p devices/virtual devices/pci0000:00/0000:00:05.0/net/lo/ devices/pci0000:00/0000:00:05.0/infiniband/mlx9_0 \\
    class/net && cd /sys/devices/pci0000:00/0000:00:05.0 && echo 1 > numa_node && echo real > infiniband/mlx9_0/node_desc && \\
    ln -s ../../../0000:00:05.0 net/lo/device && ln -s ../../devices/pci0000:00/0000:00:05.0/net/lo /sys/class/net/lo && exec "$@"
'''


def beside_parent(config, _lab):
    """A sysfs of another network namespace, where another interface has the name."""
    if os.geteuid() != 0:
        raise Skip('mounting needs root')
    address = 'echo 02:00:00:00:00:01 > /sys/class/net/lo/address'
    other = PARENT.replace('exec "$@"', f'{address} && exec "$@"')
    wrapped = ['unshare', '-m', 'sh', '-c', other, 'sh', config.rocemu, 'run', '--device',
               'dev0=lo', '--', 'readlink', '-f', f'{DEV}/device']
    p = subprocess.run(wrapped, capture_output=True, text=True, check=False,
                       env={**os.environ, **sanitizer_env(config)})
    if 'mount:' in p.stderr or 'unshare:' in p.stderr:
        raise Skip(p.stderr.strip())
    expect(p.stdout == '/sys/devices/virtual/infiniband/dev0/device\n', f'{p.stdout}\n{p.stderr}')


def parent(config, _lab):
    """The device's link "device" is where the interface's leads, and that has it."""
    if os.geteuid() != 0:
        raise Skip('mounting needs root')
    wrapped = ['unshare', '-m', 'sh', '-c', PARENT, 'sh', config.rocemu, 'run', '--device', 'dev0=lo', '--', 'sh', '-c',
               f'readlink -f {DEV}/device; cat {DEV}/device/numa_node; ls {DEV}/device/net; ls {DEV}/device/infiniband; '
               'ls /sys/class/net/lo/device/infiniband /sys/class/net/lo/device/infiniband_verbs; '
               'cat /sys/class/net/lo/device/infiniband/*/node_desc; cat /sys/class/net/*/device/infiniband/dev0/ports/1/link_layer; '
               'readlink -f /sys/class/net/lo/device/infiniband/dev0']
    p = subprocess.run(wrapped, capture_output=True, text=True, env={**os.environ, **sanitizer_env(config)}, check=False)
    if 'mount:' in p.stderr or 'unshare:' in p.stderr:
        raise Skip(p.stderr.strip())
    want = ['/sys/devices/pci0000:00/0000:00:05.0', '1', 'lo', 'dev0', 'mlx9_0', '/sys/class/net/lo/device/infiniband:',
            'dev0', 'mlx9_0', '', '/sys/class/net/lo/device/infiniband_verbs:', 'uverbs0', 'dev0', 'real', 'Ethernet',
            '/sys/devices/pci0000:00/0000:00:05.0/infiniband/dev0']
    expect(p.stdout.splitlines() == want and not p.stderr, f'{p.stdout}\n{p.stderr}')


def mounted(config, _lab):
    """In a mount namespace also without the interposer, that is to raw system calls; the rest of /sys is there."""
    command = (f'unset LD_PRELOAD; cat {DEV}/node_type {DEV}/ports/1/link_layer; ls /sys/class/infiniband; '
               'readlink -f /sys/class/infiniband/dev0; cat /sys/class/infiniband_verbs/uverbs*/ibdev; ls /sys/class/net/lo; '
               'ls /sys/devices/virtual | grep -x net; id -u')
    for user in (None, NOBODY) if os.geteuid() == 0 else (None,):
        p = run(config, SIDE, ['sh', '-c', command], options=['--mount-paths'], user=user)
        if p.popen.returncode == 1 and re.search('--mount-paths: (no |)mount namespace|--mount-paths: (overlay on|/proc/self/)', p.stderr):
            raise Skip(p.stderr)
        expect(p.popen.returncode == 0 and not p.stderr, 'failed', p)
        lines = p.stdout.splitlines()
        expect(lines[:2] == ['1: CA', 'Ethernet'] and 'dev0' in lines and 'mtu' in lines and 'net' in lines and
               '/sys/devices/virtual/infiniband/dev0' in lines, 'not all is there', p)
        expect(lines[-1] == str(os.geteuid() if user is None else user), 'another user', p)
    expect('dev0' not in (os.listdir('/sys/class/infiniband') if os.path.isdir('/sys/class/infiniband') else []), 'left behind')
    p = run(config, SIDE, ['ibv_devinfo', '-d', 'dev0'], options=['--mount-paths'])
    expect(p.popen.returncode == 0 and 'PORT_ACTIVE' in p.stdout, 'the library does not work there', p)
    p = run(config, SIDE, ['true'], options=['--mount-paths'], env={'ROCEMU_PATHS': 'off'})
    expect(p.popen.returncode == 2 and '--mount-paths' in p.stderr, 'both are taken', p)


def privileged(config, _lab):
    """A set-user-ID program gets nothing of it, and works."""
    if os.geteuid() != 0:
        raise Skip('making a set-user-ID program needs root')
    with tempfile.TemporaryDirectory(dir='/var/tmp') as scratch:
        os.chmod(scratch, 0o755)
        program = os.path.join(scratch, 'ls')
        shutil.copy('/bin/ls', program)
        os.chmod(program, 0o4755)
        p = run(config, SIDE, [program, '-d', DEV], user=NOBODY)
        if 'cannot be preloaded' in p.stderr:
            raise Skip(p.stderr)
        expect(p.popen.returncode == 2 and 'No such file' in p.stderr, 'it saw the tree', p)


SET_USER_ID = '''
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (!ctx || !ibv_alloc_pd(ctx))
		return 1;
	puts(ibv_get_device_name(list[0]));
	return 0;
}
'''


def other_environment(config, _lab):
    """A set-user-ID program that is linked with the drop-in heeds nothing of its caller's environment."""
    if os.geteuid() != 0 or config.sanitize:
        raise Skip('making a set-user-ID program needs root, and a build without sanitizers')
    need_user(NOBODY, config.rocemu)
    with tempfile.TemporaryDirectory(dir='/var/tmp') as scratch:
        os.chmod(scratch, 0o755)
        program = os.path.join(scratch, 'a')
        libraries = os.path.join(config.build, 'src', 'verbs')
        subprocess.run(['gcc', '-x', 'c', '-', '-o', program, '-libverbs', f'-Wl,-rpath,{libraries}'], input=SET_USER_ID,
                       text=True, check=True)
        files = {name: os.path.join(scratch, name) for name in ('ROCEMU_PCAP', 'ROCEMU_TRACE', 'ROCEMU_IMPAIR_LOG')}
        env = {**os.environ, **files, 'ROCEMU_DEVICES': 'other=lo', 'ROCEMU_IMPAIR': 'drop chance=1%', 'ROCEMU_LOG': 'debug'}
        for mode, user in ((0o755, 0), (0o4755, NOBODY)):
            os.chmod(program, mode)
            p = subprocess.run([*users.command(user), program], capture_output=True, text=True, env=env, umask=0, check=False)
            there = {name for name, path in files.items() if os.path.exists(path)}
            expect(p.returncode == 0, p.stderr)
            if user == 0:
                expect(there == set(files) and p.stdout == 'other\n' and p.stderr, f'not all is heeded: {there}\n{p.stdout}')
                for path in files.values():
                    expect(os.stat(path).st_mode & 0o777 == 0o600, f'others can use {path}')
                    os.unlink(path)
            else:
                expect(not there and p.stdout != 'other\n' and not p.stderr, f'heeded: {there}\n{p.stdout}{p.stderr}')


def others(config, _lab):
    """Other users can read nothing of what a run's processes share but the counters, which are in sysfs, too."""
    need_user(NOBODY, config.rocemu)
    port = new_port()
    server = start(config, SIDE, ['ibv_rc_pingpong', '-d', 'dev0', '-g', 0, '-p', port], 'server')
    try:
        server.wait_listening(port)
        with open(f'/proc/{server.pid}/environ', encoding='utf-8') as f:
            root = re.search(r'(?:^|\0)ROCEMU_PATHS=([^\0]*)', f.read()).group(1)
        shared = os.path.realpath(os.path.join(root, 'shared'))
        with open(os.path.join(shared, 'objects', 'dev0'), 'rb') as f:
            at = os.lseek(f.fileno(), 0, os.SEEK_DATA)  # an error: no object is shown
            expect(os.pread(f.fileno(), 1 << 16, at).strip(b'\0'), 'no object is shown')
        # All the way is open: only the files' own modes keep others out.
        subprocess.run([*users.command(NOBODY), 'ls', os.path.join(shared, 'objects')], stdout=subprocess.DEVNULL, check=True)
        readable = subprocess.run([*users.command(NOBODY), 'find', shared, '-type', 'f', '-readable', '-printf', '%P\\n'],
                                  capture_output=True, text=True, check=True).stdout.split()
        rest = [name for name in readable if not name.startswith(('counters/', 'sys/'))]
        expect('counters/dev0' in readable and not rest, f'others can read {rest}, of {readable[:10]}')
        # The keeper of the tree answers every user, but shows QPs to its own one.
        library = os.path.join(config.build, 'src', 'interpose', 'librocemu-paths.so')
        preload = ' '.join(filter(None, (sanitizer_env(config).get('LD_PRELOAD'), library)))
        for user, shown in ((None, True), (NOBODY, False)):
            p = Proc(['sh', '-c', 'rdma dev && rdma resource show qp && rdma resource'], user=user, name=f'rdma as {user}',
                     env={**sanitizer_env(config), 'LD_PRELOAD': preload, 'ROCEMU_PATHS': root})
            expect(p.wait() == 0 and 'dev0: node_type ca' in p.stdout, 'no answer', p)
            expect(('lqpn' in p.stdout) == shown == (re.search(r'dev0:.* qp 1 ', p.stdout) is not None), f'QPs: {not shown}', p)
    finally:
        server.kill()


def ucx_info(config, _lab):
    """UCX looks for the device node and the GIDs' types itself."""
    text = output(config, 'ucx_info', '-d')
    for transport in ('rc_verbs', 'ud_verbs'):
        expect(re.search(rf'Transport: {transport}\n#\s+Device: dev0:1', text), f'no {transport}:\n{text}')


def ucx_perftest(transport):
    def check(config, _lab):
        env = {'UCX_TLS': f'{transport},self', 'UCX_NET_DEVICES': 'dev0:1'}
        port = new_port()
        server = start(config, SIDE, ['ucx_perftest', '-p', port], 'server', env)
        try:
            server.wait_listening(port)
            p = run(config, SIDE, ['ucx_perftest', '127.0.0.1', '-p', port, '-t', 'tag_lat', '-n', 500, '-w', 10, '-s', 5000],
                    'client', env)
            expect(p.popen.returncode == 0 and 'Final:' in p.stdout, 'ucx_perftest failed', server, p)
            expect(server.wait() == 0, 'the server failed', server, p)
        finally:
            if server.running():
                server.kill()
    return check


def cases():
    return [
        Case('paths/contents', contents, NORMAL),
        Case('paths/tools', tools, QUICK),
        Case('paths/functions', functions, QUICK),
        Case('paths/off', off, NORMAL),
        Case('paths/nested', nested, NORMAL),
        Case('paths/gid-layout', gid_layout, NORMAL),
        Case('paths/gid-indices', gid_indices, NORMAL, needs=('ibv_rc_pingpong',)),
        Case('paths/removed', removed, NORMAL),
        Case('paths/filling', filling, NORMAL),
        Case('paths/changes', changes, NORMAL),
        Case('paths/real-devices', real_devices, NORMAL),
        Case('paths/parent', parent, NORMAL),
        Case('paths/parent.other', beside_parent, NORMAL),
        Case('paths/mounted', mounted, NORMAL),
        Case('paths/set-user-id', privileged, NORMAL),
        Case('paths/set-user-id.environment', other_environment, NORMAL),
        Case('paths/others', others, NORMAL, needs=('ibv_rc_pingpong', 'rdma')),
        Case('ucx/info', ucx_info, NORMAL, needs=('ucx_info',)),
        Case('ucx/perftest/rc', ucx_perftest('rc_verbs,ud_verbs:aux'), NORMAL, needs=('ucx_perftest',)),
        Case('ucx/perftest/ud', ucx_perftest('ud_verbs'), NORMAL, needs=('ucx_perftest',)),
    ]
