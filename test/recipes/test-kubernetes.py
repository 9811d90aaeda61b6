#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The recipes of docs/kubernetes.md without a cluster: packaging/kubernetes is what is rendered of
it, fits the API's types and the Pod Security Standard "restricted"; and its pods, run according to the
manifests, reach each other.

    test-kubernetes.py BUILD [PART-OF-NAME]
"""
import copy
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import networks_lab as lab  # noqa: E402 # pylint: disable=wrong-import-position

try:
    import yaml
except ImportError:
    lab.netns.skip('no YAML (package python3-yaml)')

import kubernetes_pods as pods  # noqa: E402 # pylint: disable=wrong-import-position
import kubernetes_schema as schema  # noqa: E402 # pylint: disable=wrong-import-position

MANIFESTS = os.path.join(HERE, '..', '..', 'packaging', 'kubernetes')
PAGE = os.path.join(HERE, '..', '..', 'docs', 'kubernetes.md')
EXAMPLES = ('perftest', 'ucx', 'mpi')


class Skip(Exception):
    """The case cannot run here; the text is the reason."""


def load(path):
    with open(os.path.join(MANIFESTS, path), encoding='utf-8') as f:
        return [d for d in yaml.safe_load_all(f) if d]


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f'no {program}')
    if 'nft' in programs and lab.why_no_firewalls():
        raise Skip(lab.why_no_firewalls())


# ---- what is written -------------------------------------------------------------------------------------

def rendered__are_what_kustomize_makes(_):
    need('kubectl')
    for name in EXAMPLES:
        p = subprocess.run(['kubectl', 'kustomize', os.path.join(MANIFESTS, name)],
                           capture_output=True, text=True, check=False)
        assert p.returncode == 0, p.stderr
        assert list(yaml.safe_load_all(p.stdout)) == load(f'rendered/{name}.yaml'), \
            f'kubectl kustomize {name} > rendered/{name}.yaml'


def rendered__fit_the_api(_):
    if not schema.models:
        raise Skip('no types of the API (package python3-kubernetes)')
    for path in [f'rendered/{name}.yaml' for name in EXAMPLES] + ['host-network/agent.yaml']:
        for d in load(path):
            schema.check(d)
            broken = copy.deepcopy(d)
            broken['metadata']['nmae'] = 'x'
            try:
                schema.check(broken)
            except AssertionError:
                continue
            assert False, f'a wrong field of {d["kind"]} is not noticed'


def rendered__hold_the_restricted_standard(_):
    for name in EXAMPLES:
        for d in load(f'rendered/{name}.yaml'):
            template = d.get('spec', {}).get('template')
            if template:
                schema.restricted(f'{name}/{d["metadata"]["name"]}', template['spec'])


# ---- what runs -------------------------------------------------------------------------------------------

def cluster_of(images, name, change=None):
    cluster = pods.Cluster(images)
    documents = load(f'rendered/{name}.yaml')
    if change:
        change(documents)
    if any('mpi-ssh' in str(d) for d in documents):
        cluster.secrets['mpi-ssh'] = ssh_keys(images.dir)
    cluster.apply(documents)
    return cluster


def server_and_client(images, name, port, change=None):
    """Both processes when the client has ended."""
    cluster = cluster_of(images, name, change)
    try:
        server = cluster.pod(f'{name}-server').start()
        server.wait_listening(port)
        client = cluster.pod(f'{name}-client').start()
        client.wait()
        if client.popen.returncode == 0:
            server.wait()
        return server, client
    finally:
        cluster.close()


def perftest__two_pods__measure(images):
    need('ib_write_bw', 'bwrap', 'nft')
    server, client = server_and_client(images, 'perftest', 18515)
    report = client.report() + server.report()
    assert client.popen.returncode == 0 and server.popen.returncode == 0, report
    assert re.search(r'Device +: rocemu_eth0$', client.stdout, re.M), report
    assert re.search(r'^ 65536 +5000 +\d', client.stdout, re.M), report


def perftest__policy_without_4791__does_not_pass(images):
    """The rule of the policy is needed: what the test above shows is not shown by all rules."""
    need('ib_write_bw', 'bwrap', 'nft')

    def without(documents):
        for d in documents:
            if d['kind'] == 'NetworkPolicy':
                for rule in d['spec']['ingress']:
                    rule['ports'] = [p for p in rule['ports'] if p['port'] != 4791]
            elif d['kind'] == 'Job':
                command = d['spec']['template']['spec']['containers'][0]['command']
                command[command.index('-u') + 1] = '12'
    server, client = server_and_client(images, 'perftest', 18515, without)
    report = client.report() + server.report()
    assert client.popen.returncode != 0 and 'Failed status 12' in client.output, report


def ucx__two_pods__measure(images):
    need('ucx_perftest', 'bwrap', 'nft')
    server, client = server_and_client(images, 'ucx', 13337)
    assert client.popen.returncode == 0, client.report() + server.report()
    assert re.search(r'^Final: +1000 ', client.stdout, re.M), client.report() + server.report()


def ssh_keys(directory):
    """The files of the Secret, by the command that docs/kubernetes.md has for them."""
    need('dropbearkey')
    with open(PAGE, encoding='utf-8') as f:
        command, = re.findall(r'^dropbearkey .*$', f.read(), re.M)
    where = tempfile.mkdtemp(dir=directory)
    subprocess.run(command, shell=True, cwd=where, check=True, stderr=subprocess.DEVNULL)
    files = {}
    for name in os.listdir(where):
        with open(os.path.join(where, name), 'rb') as f:
            files[name] = f.read()
    assert sorted(files) == ['authorized_keys', 'id'], files.keys()
    return files


def mpi__launcher_and_two_workers__compare_data(images):
    need('mpirun', 'NPopenmpi', 'dropbear', 'dbclient', 'bwrap', 'nft')
    cluster = cluster_of(images, 'mpi')
    try:
        workers = [cluster.pod(f'mpi-worker-{i}').start() for i in (0, 1)]
        for worker in workers:
            worker.wait_listening(2222)
        launcher = cluster.pod('mpi-launcher').start()
        code = launcher.wait()
        report = launcher.report() + workers[0].report() + workers[1].report()
        assert code == 0 and re.search(r'196608 bytes .* Integrity check passed',
                                       launcher.output), report
    finally:
        cluster.close()


def on_the_node(documents):
    """perftest's two pods with hostNetwork, as two users."""
    for d in documents:
        template = d.get('spec', {}).get('template')
        if template:
            template['spec']['hostNetwork'] = True
            if template['metadata']['labels'].get('role') == 'client':
                template['spec']['securityContext']['runAsUser'] = 10002
    documents[:] = [d for d in documents if d['kind'] != 'NetworkPolicy']


def host_network__agent_of_the_node__serves_two_users(images):
    need('ib_write_bw', 'bwrap')
    cluster = cluster_of(images, 'perftest', on_the_node)
    try:
        cluster.apply(load('host-network/agent.yaml'))
        agent = cluster.pod('rocemu-agent').start()
        agent.wait_until(lambda: '@rocemu' in cluster.node.run('cat', '/proc/net/unix'),
                         'it listened')
        server = cluster.pod('perftest-server').start()
        server.wait_listening(18515)
        client = cluster.pod('perftest-client').start()
        assert client.wait() == 0 and server.wait() == 0, \
            client.report() + server.report() + agent.report()
    finally:
        cluster.close()


def host_network__no_agent_of_the_node__says_whose_has_the_port(images):
    """perftest makes its queue pair before it contacts the peer: one of the two comes too late."""
    need('ib_write_bw', 'bwrap')
    server, client = server_and_client(images, 'perftest', 18515, on_the_node)
    report = client.report() + server.report()
    assert client.popen.returncode != 0, report
    assert re.search(r'UDP port 4791 of 192.0.2.1 is taken by the rocemu agent of user 1000[12]: '
                     '.*`rocemu agent --system`', client.stderr + server.stderr), report


CASES = [v for k, v in list(globals().items()) if '__' in k and callable(v)]


def mount_points():
    points = set()
    for name in EXAMPLES:
        for d in load(f'rendered/{name}.yaml'):
            spec = d.get('spec', {}).get('template', {}).get('spec', {})
            for container in spec.get('containers', []) + spec.get('initContainers', []):
                points |= {m['mountPath'] for m in container.get('volumeMounts', [])}
    return points


def main():
    build, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ''
    lab.enter_namespace()
    if os.getpid() != 1:
        # All processes of the pods end with this one, also those that outlive their parents.
        os.execvp('unshare', ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc',
                              sys.executable, *sys.argv])
    pods.private_mounts()
    try:
        images = pods.Images(build, mount_points())
    except pods.CannotMount as e:
        lab.netns.skip(f'no images: {e}')
    failed = skipped = 0
    for case in CASES:
        if part not in case.__name__:
            continue
        begin = time.monotonic()
        try:
            case(images)
            print(f'ok      {case.__name__}, {time.monotonic() - begin:.1f} s', flush=True)
        except Skip as e:
            skipped += 1
            print(f'skipped {case.__name__}: {e}', flush=True)
        except Exception:  # pylint: disable=broad-except # each case is reported
            failed += 1
            print(f'FAILED  {case.__name__}', flush=True)
            traceback.print_exc()
    images.close()
    sys.exit(1 if failed else lab.netns.SKIP if skipped == len(CASES) else 0)


if __name__ == '__main__':
    main()
