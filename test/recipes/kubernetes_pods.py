# SPDX-License-Identifier: BSD-2-Clause
"""Runs the pods of manifests without a cluster: each pod is a network namespace behind a router,
each container a mount and PID namespace of its own, with the user, root file system, capabilities
and volumes that the manifest gives it. A field that is not understood here is an error.

Images are this host's own files (overlayfs, read-only): "rocemu" has what is built, installed;
"rdma-apps" lacks that, and the libraries that only rocemu needs.
"""
import ctypes
import glob
import os
import platform
import shutil
import struct
import subprocess
import tempfile

from networks_lab import Host, Proc, address, link

APP_USER = 10001
CLONE_NEWNS = 0x20000
# What other images lack: libraries of rocemu's that RDMA programs do not need.
ROCEMU_ONLY = ('libpcap.so.*', 'libisal.so.*', 'libev.so.*', 'libncursesw.so.*')
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
IGNORED_POD = {'restartPolicy', 'automountServiceAccountToken', 'enableServiceLinks',
               'terminationGracePeriodSeconds', 'tolerations'}
IGNORED_CONTAINER = {'image', 'imagePullPolicy', 'resources', 'name'}


def private_mounts():
    """Mounts of this process are seen by its children only, and end with them."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    subprocess.run(['mount', '--make-rprivate', '/'], check=True)


# ---- seccomp ---------------------------------------------------------------------------------------------

# System calls that the runtimes' default profile refuses to a process without capabilities, by
# their numbers on x86_64: mounts, namespaces, modules, keys, tracing of the kernel, clocks, NUMA
# policies of others, io_uring.
REFUSED = (154, 155, 156, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 174, 175, 176,
           177, 178, 179, 180, 212, 227, 237, 238, 239, 246, 248, 249, 250, 256, 272, 279, 298, 300,
           303, 304, 305, 308, 313, 320, 321, 323, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442,
           443)


def seccomp_filter():
    """A BPF program that answers EPERM to them, or None on another machine."""
    if platform.machine() != 'x86_64':
        return None
    allow, refuse = 0x7fff0000, 0x00050001
    load_number, jump_if_equal, result = 0x20, 0x15, 0x06
    n = len(REFUSED)
    code = [(load_number, 0, 0, 0)]
    code += [(jump_if_equal, n - i, 0, number) for i, number in enumerate(REFUSED)]
    code += [(result, 0, 0, allow), (result, 0, 0, refuse)]
    return b''.join(struct.pack('=HBBI', *c) for c in code)


# ---- images ----------------------------------------------------------------------------------------------

class CannotMount(Exception):
    """This machine lets nothing be mounted, or has no overlayfs."""


class Images:
    """Read-only roots by name, mounted below a temporary directory."""

    def __init__(self, build, mount_points):
        self.dir = tempfile.mkdtemp(prefix='rocemu-recipes-')
        self.mounted = []
        try:
            self._mount_at(self.dir, '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs')
            self._make(build, mount_points)
        except BaseException:
            self.close()
            raise

    def _make(self, build, mount_points):
        common = self._layer('common')
        for point in mount_points:
            path = common + point
            if point.endswith('authorized_keys'):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                open(path, 'wb').close()  # pylint: disable=consider-using-with
            else:
                os.makedirs(path, exist_ok=True)
        os.makedirs(common + '/home/app', exist_ok=True)
        for path, _, files in os.walk(common + '/home/app'):
            for p in [path] + [os.path.join(path, f) for f in files]:
                os.chown(p, APP_USER, APP_USER)
        os.makedirs(common + '/etc', exist_ok=True)
        shutil.copy('/etc/passwd', common + '/etc/passwd')
        with open(common + '/etc/passwd', 'a', encoding='utf-8') as f:
            f.write(f'app:x:{APP_USER}:{APP_USER}::/home/app:/bin/sh\n')
        for name in ('hosts', 'resolv.conf'):
            open(f'{common}/etc/{name}', 'wb').close()  # pylint: disable=consider-using-with

        installed = self._layer('installed')
        p = subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--tags',
                            'runtime', '--destdir', installed], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
        assert p.returncode == 0, p.stdout
        without = self._layer('without')
        for pattern in ROCEMU_ONLY:
            for path in glob.glob('/usr/lib/*/' + pattern):
                self._whiteout(without, path)
        self._whiteout(without, os.path.realpath(build))
        self.roots = {'rocemu': self._mount('rocemu', common, installed),
                      'rdma-apps': self._mount('rdma-apps', common, without)}

    def _layer(self, name):
        path = os.path.join(self.dir, name)
        os.makedirs(path)
        return path

    @staticmethod
    def _whiteout(layer, path):
        """A device 0, 0 hides the file of that name in the layers below."""
        os.makedirs(os.path.dirname(layer + path), exist_ok=True)
        os.mknod(layer + path, 0o20600, os.makedev(0, 0))

    def _mount(self, name, *layers):
        root = self._layer('root-' + name)
        self._mount_at(root, '-t', 'overlay', 'overlay', '-o', f'lowerdir={":".join(layers)}:/')
        if not os.path.exists(root + '/usr/bin/env'):
            raise CannotMount('/usr is another file system than /')
        return root

    def _mount_at(self, path, *options):
        p = subprocess.run(['mount', *options, path], capture_output=True, text=True, check=False)
        if p.returncode != 0:
            raise CannotMount(p.stderr.strip())
        self.mounted.append(path)

    def close(self):
        for path in reversed(self.mounted):
            subprocess.run(['umount', '-l', path], check=True)
        os.rmdir(self.dir)


# ---- pods ------------------------------------------------------------------------------------------------

class Pod:
    """A network namespace with an address, and containers in it."""

    def __init__(self, cluster, name, labels, spec, host=None, subdomain=None):
        self.cluster, self.name, self.labels, self.spec = cluster, name, labels, spec
        self.host, self.subdomain = host, subdomain
        self.ip = None
        self.volumes = {}
        known = {'containers', 'initContainers', 'volumes', 'securityContext', 'hostNetwork'}
        unknown = set(spec) - known - IGNORED_POD
        assert not unknown, f'{name}: fields of the pod: {unknown}'
        for volume in spec.get('volumes', []):
            self.volumes[volume['name']] = self._volume(volume)

    def _volume(self, volume):
        path = os.path.join(self.cluster.dir, f'volume-{self.name}-{volume["name"]}')
        os.makedirs(path)
        kind, = set(volume) - {'name'}
        if kind == 'emptyDir':
            os.chmod(path, 0o777)
            return path
        files = {'configMap': lambda v: self.cluster.config_maps[v['name']],
                 'secret': lambda v: self.cluster.secrets[v['secretName']]}[kind](volume[kind])
        for name, text in files.items():
            with open(os.path.join(path, name), 'wb') as f:
                f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def security(self, container):
        """What holds for the container: its own context over the pod's."""
        return {**self.spec.get('securityContext', {}), **container.get('securityContext', {})}

    def _sandbox(self, container):
        context = self.security(container)
        known = {'command', 'args', 'env', 'volumeMounts', 'securityContext'}
        unknown = set(container) - known - IGNORED_CONTAINER
        assert not unknown, f'{self.name}: fields of the container: {unknown}'
        unknown = set(context) - {'runAsNonRoot', 'runAsUser', 'runAsGroup', 'seccompProfile',
                                  'allowPrivilegeEscalation', 'readOnlyRootFilesystem',
                                  'capabilities'}
        assert not unknown, f'{self.name}: fields of the security context: {unknown}'
        assert context['readOnlyRootFilesystem'] and context['capabilities'] == {'drop': ['ALL']}
        assert context['allowPrivilegeEscalation'] is False
        user, group = context['runAsUser'], context['runAsGroup']

        argv = ['bwrap', '--unshare-pid', '--as-pid-1', '--unshare-ipc', '--unshare-uts',
                '--hostname', self.name, '--die-with-parent', '--new-session', '--clearenv',
                '--setenv', 'PATH', PATH, '--setenv', 'HOSTNAME', self.name, '--cap-add', 'ALL',
                '--ro-bind', self.cluster.images.roots[container['image']], '/',
                '--dev', '/dev', '--proc', '/proc', '--ro-bind', '/sys', '/sys',
                '--ro-bind', self.cluster.hosts_file(), '/etc/hosts']
        for variable in container.get('env', []):
            argv += ['--setenv', variable['name'], variable['value']]
        for mount in container.get('volumeMounts', []):
            bind = '--ro-bind' if mount.get('readOnly') else '--bind'
            argv += [bind, os.path.join(self.volumes[mount['name']], mount.get('subPath', '')),
                     mount['mountPath']]
        # A sysfs of the pod's network namespace.
        script = 'mount -t sysfs -o ro sysfs /sys && exec "$@"'
        if self.cluster.seccomp and context['seccompProfile'] == {'type': 'RuntimeDefault'}:
            script += f' 9<{self.cluster.seccomp}'
            argv += ['--seccomp', '9']
        return [*self.host.enter(), 'unshare', '-m', 'sh', '-c', script, 'sh', *argv, '--', 'setpriv', f'--reuid={user}',
                f'--regid={group}', '--clear-groups', '--inh-caps=-all', '--bounding-set=-all',
                '--no-new-privs']

    def _start(self, container):
        proc = Proc([*container['command'], *container.get('args', [])],
                    name=f'{container["name"]} of {self.name}', wrapper=self._sandbox(container))
        self.cluster.procs.append(proc)
        return proc

    def start(self):
        """Runs the init containers to their end and starts the first container."""
        for container in self.spec.get('initContainers', []):
            proc = self._start(container)
            assert proc.wait() == 0, proc.report()
        container, = self.spec['containers']
        return self._start(container)


class Cluster:
    """A node that routes between its pods, with what was applied to it."""

    def __init__(self, images):
        self.images = images
        self.dir = tempfile.mkdtemp(dir=images.dir)
        os.chmod(self.dir, 0o755)
        self.node = Host('node')
        self.node.sysctl('net.ipv4.ip_forward', 1)
        self.pods, self.procs, self.services, self.policies = [], [], {}, []
        self.config_maps, self.secrets = {}, {}
        self.outside = self.seccomp = None
        if seccomp_filter():
            self.seccomp = os.path.join(self.dir, 'seccomp')
            with open(self.seccomp, 'wb') as f:
                f.write(seccomp_filter())

    def apply(self, documents):
        """The objects of a manifest; pods are made, but not started."""
        for d in documents:
            kind, name, spec = d['kind'], d['metadata']['name'], d.get('spec', {})
            if kind == 'ConfigMap':
                self.config_maps[name] = d['data']
            elif kind == 'Service':
                assert spec['clusterIP'] == 'None', f'{name}: an address of its own'
                self.services[name] = spec['selector']
            elif kind == 'NetworkPolicy':
                self.policies.append(spec)
            else:
                assert kind in ('Namespace', 'Job', 'StatefulSet', 'DaemonSet'), kind
        for d in documents:
            template = d.get('spec', {}).get('template')
            if template:
                count = d['spec'].get('replicas', 1)
                for i in range(count):
                    name = d['metadata']['name'] + (f'-{i}' if d['kind'] == 'StatefulSet' else '')
                    self._pod(name, template, d['spec'].get('serviceName'))
        if self.policies:
            self.node.firewall(self.policy_rules())

    def _pod(self, name, template, subdomain):
        pod = Pod(self, name, template['metadata']['labels'], template['spec'], subdomain=subdomain)
        if template['spec'].get('hostNetwork'):
            pod.host, pod.ip = self.node, self.node_address()
        else:
            n = len(self.pods) + 1
            pod.host, pod.ip = Host(name), f'10.244.{n}.2'
            link(pod.host, 'eth0', self.node, f'veth{n}', 1450)
            address(pod.host, 'eth0', pod.ip + '/24')
            address(self.node, f'veth{n}', f'10.244.{n}.1/24')
            pod.host.run('ip', 'route', 'add', 'default', 'via', f'10.244.{n}.1')
        self.pods.append(pod)

    def node_address(self):
        """Of the node on the network outside, which is made at the first call."""
        if not self.outside:
            self.outside = Host('outside')
            link(self.node, 'eth0', self.outside, 'eth0')
            address(self.node, 'eth0', '192.0.2.1/24')
        return '192.0.2.1'

    def pod(self, name):
        return next(p for p in self.pods if p.name == name)

    def hosts_file(self):
        """What the cluster's name server would answer."""
        path = os.path.join(self.dir, 'hosts')
        with open(path, 'w', encoding='utf-8') as f:
            f.write('127.0.0.1 localhost\n')
            for pod in self.pods:
                names = [pod.name]
                names += [s for s, labels in self.services.items()
                          if labels.items() <= pod.labels.items()]
                names += [f'{pod.name}.{pod.subdomain}'] if pod.subdomain else []
                f.write(f'{pod.ip} {" ".join(names)}\n')
        return path

    # ---- network policies ----

    def _selected(self, selector):
        unknown = set(selector) - {'matchLabels', 'matchExpressions'}
        assert not unknown, unknown
        pods = [p for p in self.pods if selector.get('matchLabels', {}).items() <= p.labels.items()]
        for e in selector.get('matchExpressions', []):
            assert e['operator'] == 'Exists', e
            pods = [p for p in pods if e['key'] in p.labels]
        return pods

    def _rules(self, policy, direction, peers_of, side):
        for rule in policy.get(direction, []):
            for peer in rule[peers_of]:
                # Pods of other namespaces (the name server) are not here.
                pods = [] if 'namespaceSelector' in peer else self._selected(peer['podSelector'])
                ips = ', '.join(p.ip for p in pods)
                for port in rule['ports'] if ips else []:
                    last = port.get('endPort', port['port'])
                    yield (f'ip {side} {{ {ips} }} {port["protocol"].lower()} '
                           f'dport {port["port"]}-{last} return')

    def policy_rules(self):
        """As an nft rule set for what the node forwards. A policy is about connections: what
        belongs to one that was allowed is let through."""
        policy, = self.policies
        assert sorted(policy['policyTypes']) == ['Egress', 'Ingress'], policy['policyTypes']
        ips = ', '.join(p.ip for p in self._selected(policy['podSelector']))
        lines = ['table ip pods {']
        for chain, direction, peers_of, own, other in (
                ('out', 'egress', 'to', 'saddr', 'daddr'),
                ('in', 'ingress', 'from', 'daddr', 'saddr')):
            rules = self._rules(policy, direction, peers_of, other)
            lines += [f'chain {chain}pods {{', f'ip {own} != {{ {ips} }} return', *rules,
                      'counter drop', '}']
        lines += ['chain forward {', 'type filter hook forward priority 0; policy accept;',
                  'ct state established,related accept', 'jump outpods', 'jump inpods', '}', '}']
        return '\n'.join(lines) + '\n'

    def close(self):
        for proc in self.procs:
            if proc.running():
                proc.kill()
        for pod in self.pods:
            if pod.host is not self.node:
                pod.host.close()
        if self.outside:
            self.outside.close()
        self.node.close()
