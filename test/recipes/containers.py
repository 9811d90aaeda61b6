#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/containers.md by podman: its blocks as they are, then its statements about limits.

usage: containers.py SOURCE_ROOT

Needs root (or a user who may use podman), but no registry and no network: the base image is made of this
machine's packages. Images, containers and networks are in directories of the test's own.
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import ci_tree
import containers_base
from ci_tree import netns, skip

BASE = 'docker.io/library/debian:bookworm-slim'
GUARD_S = 900       # of a hang: the build takes a minute on an idle machine
STRICT = ('--cap-drop=all --read-only --read-only-tmpfs=false --security-opt=no-new-privileges').split()
SECCOMP = pathlib.Path('/usr/share/containers/seccomp.json')
FOR_NAMESPACES = {'clone3', 'mount', 'pivot_root', 'sethostname', 'setns', 'umount', 'umount2', 'unshare'}


def command(*argv, check=True):
    p = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       timeout=GUARD_S, check=False)
    assert not check or p.returncode == 0, f'{" ".join(map(str, argv))}: exit code {p.returncode}\n{p.stdout[-4000:]}'
    return p


def podman(*argv, check=True):
    return command('podman', *argv, check=check)


def configure(work, runtime):
    """A podman that has nothing in common with the machine's."""
    # Root may be without the privilege to raise these, as podman does.
    limits = []
    for name, number in (('nofile', resource.RLIMIT_NOFILE), ('nproc', resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(number)[1]
        hard = 20000 if hard == resource.RLIM_INFINITY else min(hard, 20000)
        limits.append(f'{name}={hard}:{hard}')
    (work / 'containers.conf').write_text(
        f'[containers]\ndefault_ulimits = {json.dumps(limits)}\nlog_driver = "k8s-file"\n'
        f'[network]\nnetwork_config_dir = "{work}/networks"\n'
        f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "{runtime}"\n', encoding='utf-8')
    (work / 'storage.conf').write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{work}/storage"\nrunroot = "{work}/run"\n', encoding='utf-8')
    os.environ['CONTAINERS_CONF'] = str(work / 'containers.conf')
    os.environ['CONTAINERS_STORAGE_CONF'] = str(work / 'storage.conf')


def unmount(work):
    """What podman leaves mounted for the next time."""
    for line in pathlib.Path('/proc/self/mounts').read_text(encoding='utf-8').splitlines():
        if line.split()[1].startswith(f'{work}/'):
            command('umount', '-l', line.split()[1], check=False)


def need_engine(work):
    """Skips the test where no runtime can start a container from a directory; leaves the one that can."""
    why = 'podman is not installed'
    for runtime in ('crun', 'runc'):
        if not shutil.which('podman') or not shutil.which(runtime):
            continue
        configure(work, runtime)
        p = podman('run', '--rm', '--network', 'none', BASE, 'true', check=False)
        if p.returncode == 0:
            return
        why = f'podman with {runtime} runs no container here: {p.stdout.strip()[-300:]}'
    skip(why)


def import_base(root, work):
    """The image that the Containerfile begins with, under its name."""
    lists = subprocess.run(['bash', '-c', '. "$1" && echo $PACKAGES_BUILD $PACKAGES_RUN', 'bash', root / 'tools/packages.sh'],
                           capture_output=True, text=True, check=True).stdout.split()
    programs = ['ibverbs-utils', 'perftest', 'rdmacm-utils']
    missing = containers_base.not_installed([*lists, *programs])
    if missing:
        skip(f'the base image needs {" ".join(missing)}')
    containers_base.make([*lists, *programs], work / 'base.tar')
    podman('import', work / 'base.tar', BASE)
    (work / 'base.tar').unlink()


def run_page(root):
    """All blocks of the page in one shell, in the source tree."""
    blocks = ci_tree.blocks(root / 'docs/containers.md', 'sh')
    assert len(blocks) == 5, 'blocks of docs/containers.md'
    script = 'cd "$1"; set -eux\n' + '\n'.join(blocks)
    out = command('bash', '-c', script, 'bash', root).stdout
    assert 'hca_id:\trocemu_eth0' in out, out[-4000:]
    assert out.count('BW average') >= 2 and out.count('ping data: rdma-ping-2') == 1, out[-4000:]
    print('ok the commands of the page', flush=True)


def pair(*options):
    """Two containers with these options that exchange messages."""
    podman('run', '-d', '--name', 'server', '--network', 'rdma', *options, 'rocemu', 'ibv_rc_pingpong', '-g', '0')
    for _ in range(100):
        p = podman('run', '--rm', '--network', 'rdma', *options, 'rocemu', 'ibv_rc_pingpong', '-g', '0', 'server', check=False)
        if p.returncode == 0:
            break
    assert p.returncode == 0 and '1000 iters' in p.stdout, p.stdout
    assert podman('wait', 'server').stdout.strip().endswith('0')
    assert '1000 iters' in podman('logs', 'server').stdout
    podman('rm', 'server')


def limits__no_writable_place_but_shm__works():
    pair(*STRICT)
    out = podman('run', '--rm', '--network', 'none', *STRICT, 'rocemu', 'sh', '-c', 'id -u; ls /sys/class/infiniband; touch /tmp/x',
                 check=False).stdout
    assert '1000\n' in out and 'rocemu_lo' in out and 'Read-only file system' in out, out


def limits__no_namespaces_by_seccomp__works():
    profile = json.loads(SECCOMP.read_text(encoding='utf-8'))
    for rule in profile['syscalls']:
        if rule['action'] == 'SCMP_ACT_ALLOW':
            rule['names'] = [n for n in rule['names'] if n not in FOR_NAMESPACES]
    profile['syscalls'] = [rule for rule in profile['syscalls'] if rule['names']]
    file = pathlib.Path(os.environ['CONTAINERS_CONF']).parent / 'seccomp.json'
    file.write_text(json.dumps(profile), encoding='utf-8')
    filtered = [*STRICT, f'--security-opt=seccomp={file}']
    pair(*filtered)
    inside = ['run', '--rm', '--network', 'none', *filtered, '--entrypoint', 'rocemu', 'rocemu']
    p = podman(*inside, 'hosts', '--', 'true', check=False)
    assert p.returncode == 1 and 'a seccomp filter is in force' in p.stdout and '--loopback' in p.stdout, p.stdout
    p = podman(*inside, 'hosts', '--loopback', '--', 'rocemu', 'devices')
    assert 'rocemu_eth0' in p.stdout, p.stdout


def process_1__stop__ends_the_program():
    podman('run', '-d', '--name', 'server', '--network', 'none', *STRICT, 'rocemu', 'ibv_rc_pingpong', '-g', '0')
    podman('stop', '-t', '60', 'server')
    code = podman('inspect', '-f', '{{.State.ExitCode}}', 'server').stdout
    assert code.strip().endswith('143'), code
    podman('rm', 'server')


def process_1__exit_code__passed_on():
    assert podman('run', '--rm', '--network', 'none', 'rocemu', 'sh', '-c', 'exit 77', check=False).returncode == 77


def main():
    root = pathlib.Path(sys.argv[1])
    if os.geteuid() != 0 or not os.access('/run', os.W_OK):    # root of a user namespace may not write there; podman does
        skip('needs root, and a /run that it may write to')
    if not shutil.which('podman') or not shutil.which('iptables'):
        skip('podman and iptables are needed')
    netns.namespace()
    del os.environ['ROCEMU_REAL']
    with tempfile.TemporaryDirectory(prefix='rocemu-containers-') as directory:
        work = pathlib.Path(directory)
        configure(work, 'runc')
        try:
            import_base(root, work)
            need_engine(work)
            run_page(root)
            for name, function in list(globals().items()):
                if '__' in name.strip('_') and callable(function):
                    function()
                    print(f'ok {name}', flush=True)
        finally:
            podman('rm', '-fa', check=False)
            podman('network', 'rm', '-f', 'rdma', check=False)
            podman('rmi', '-fa', check=False)
            unmount(work)


if __name__ == '__main__':
    main()
