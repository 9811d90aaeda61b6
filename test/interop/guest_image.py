# SPDX-License-Identifier: BSD-2-Clause
"""Makes the guest: a kernel with rdma_rxe and a root file system of Debian packages, as two files that QEMU boots.

The packages come from where this machine's apt has its own from, are only unpacked (nothing of them runs while the
image is made), and what a peer on the wire does not need is left out. The result is cached outside the tree and made
again when its recipe, or the release of this machine, changes.
"""
import hashlib
import lzma
import os
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ('linux-image-amd64', 'rdma-core', 'ibverbs-providers', 'ibverbs-utils', 'rdmacm-utils', 'perftest',
            'python3-pyverbs', 'python3-minimal', 'iproute2', 'kmod', 'mount', 'dash', 'coreutils', 'libc-bin')
MODULES = ('virtio_pci', 'virtio_console', 'virtio_net', '9pnet_virtio', '9p', 'crc32_generic', 'ib_uverbs', 'ib_umad',
           'rdma_rxe', 'rdma_ucm', 'veth', 'sch_netem', 'sch_prio', 'cls_u32')
LEFT_OUT = re.compile(r'(boot|dev|proc|sys|tmp|var|usr/share|usr/include|usr/lib/(udev|systemd|git-core|modules)|'
                      r'lib/(udev|systemd|modules)|usr/lib/x86_64-linux-gnu/(perl|gconv)|usr/share/perl5)(/|$)')
ELF, GZIP, XZ, ZSTD, LZ4 = b'\x7fELF', b'\x1f\x8b\x08', b'\xfd7zXZ\x00', b'\x28\xb5\x2f\xfd', b'\x02\x21\x4c\x18'


UNUSED_S = 7 * 24 * 3600       # after which a guest of the cache is removed when another one is made


class Unavailable(Exception):
    """The guest cannot be made or started on this machine; the text has the reason."""


# ---- the packages ----------------------------------------------------------------------------------------

def codename():
    """This machine's Debian release: the guest gets the same one, so that programs built here run there."""
    release = {}
    with open('/etc/os-release', encoding='utf-8') as f:
        for line in f:
            key, _, value = line.strip().partition('=')
            release[key] = value.strip('"')
    if release.get('ID') != 'debian' or not release.get('VERSION_CODENAME'):
        raise Unavailable(f'the guest is made on Debian, this is {release.get("PRETTY_NAME", "something else")}')
    return release['VERSION_CODENAME']


def apt_sources(release):
    """The files of this machine's apt configuration that name its Debian archives."""
    p = subprocess.run(['apt-get', 'indextargets', '--format', '$(SOURCESENTRY)|$(ORIGIN)|$(CODENAME)',
                        'Created-By: Packages'], capture_output=True, text=True, check=False)
    files = []
    for row in p.stdout.splitlines():
        entry, origin, name = row.split('|')
        path = entry.rsplit(':', 1)[0]
        if origin == 'Debian' and name.startswith(release) and path not in files:
            files.append(path)
    if not files:
        raise Unavailable(f'apt knows no index of Debian {release} (apt-get update?)')
    return files


def download(release, work):
    """A tar file with the packages' contents."""
    if os.uname().machine != 'x86_64':
        raise Unavailable('the guest is an amd64 one')
    if not shutil.which('mmdebstrap'):
        raise Unavailable('mmdebstrap is not installed')
    # How apt reaches its archives (proxies and the like), as it is configured here.
    acquire = subprocess.run(['apt-config', 'dump', 'Acquire'], capture_output=True, text=True, check=False).stdout
    config = os.path.join(work, 'apt.conf')
    with open(config, 'w', encoding='utf-8') as f:
        f.write(acquire)
    tar = os.path.join(work, 'root.tar')
    p = subprocess.run(['mmdebstrap', '--quiet', '--variant=extract', '--architectures=amd64',
                        f'--include={",".join(PACKAGES)}', f'--aptopt={config}',
                        '--aptopt=Apt::Install-Recommends "false"', release, tar, *apt_sources(release)],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if p.returncode != 0:
        raise Unavailable('mmdebstrap failed: ' + ' | '.join(p.stdout.strip().splitlines()[-3:]))
    return tar


# ---- the kernel ------------------------------------------------------------------------------------------

def unpack_kernel(image):
    """The ELF kernel inside a bzImage, which boots without being unpacked by an emulated processor; the bzImage itself
    when it is packed in a way that Python cannot undo."""
    kinds = ((GZIP, lambda b: zlib.decompressobj(31).decompress(b)), (XZ, lambda b: lzma.LZMADecompressor().decompress(b)))
    for magic, unpack in kinds:
        at = image.find(magic)
        while at >= 0:
            try:
                elf = unpack(image[at:])
                if elf.startswith(ELF):
                    return elf
            except (zlib.error, lzma.LZMAError):
                pass
            at = image.find(magic, at + 1)
    return image


def module_content(tar, member):
    data = tar.extractfile(member).read()
    return lzma.decompress(data) if member.name.endswith('.xz') else data


def wanted_modules(tar_path):
    """(name, content) of each required module and of its dependencies, in an order in which they
    can be loaded: each ELF file lists its dependencies in the section .modinfo."""
    with tarfile.open(tar_path) as tar:
        members = {}
        for m in tar.getmembers():
            found = re.search(r'/modules/.*/([^/]+)\.ko(\.\w+)?$', m.name)
            if found and m.isfile():
                members[found.group(1).replace('-', '_')] = m
        loaded = {}

        def load(name):
            if name in loaded or name not in members:
                return
            content = module_content(tar, members[name])
            depends = re.search(rb'\0depends=([\w,-]*)\0', content)
            for other in depends.group(1).decode().split(',') if depends else ():
                load(other.replace('-', '_'))
            loaded[name] = content

        for name in MODULES:
            load(name)
        return list(loaded.items())


# ---- the archive that becomes the root file system -------------------------------------------------------

class Cpio:
    """Writes the format that the kernel unpacks at boot ("newc")."""

    def __init__(self, f):
        self.f = f
        self.inode = 0
        self.dirs = set()

    def add(self, name, mode, data=b''):
        self.inode += 1
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name.encode()) + 1, 0)
        head = b'070701' + b''.join(b'%08x' % v for v in fields) + name.encode() + b'\0'
        self.f.write(head + b'\0' * (-len(head) % 4) + data + b'\0' * (-len(data) % 4))

    def directory(self, name):
        parts = name.split('/')
        for i in range(1, len(parts) + 1):
            path = '/'.join(parts[:i])
            if path and path not in self.dirs:
                self.dirs.add(path)
                self.add(path, stat.S_IFDIR | 0o755)

    def file(self, name, mode, data):
        self.directory(os.path.dirname(name))
        self.add(name, stat.S_IFREG | mode, data)

    def link(self, name, target):
        self.directory(os.path.dirname(name))
        self.add(name, stat.S_IFLNK | 0o777, target.encode())

    def close(self):
        self.add('TRAILER!!!', 0)


def pack(tar_path, kernel_path, initrd_path):
    kernel = None
    with open(initrd_path, 'wb') as out, tarfile.open(tar_path) as tar:
        cpio = Cpio(out)
        for m in tar:
            name = m.name.lstrip('./')
            if m.isfile() and name.startswith('boot/vmlinuz'):
                kernel = tar.extractfile(m).read()
            if not name or LEFT_OUT.match(name) and not name.startswith('usr/share/python3'):
                continue
            if m.isdir():
                cpio.directory(name)
            elif m.issym():
                cpio.link(name, m.linkname)
            elif m.isfile() or m.islnk():
                cpio.file(name, m.mode & 0o777, tar.extractfile(m).read())
        for name in ('dev', 'proc', 'sys', 'tmp', 'run', 'build', 'var/run'):
            cpio.directory(name)
        modules = wanted_modules(tar_path)
        for name, content in modules:
            cpio.file(f'modules/{name}.ko', 0o644, content)
        cpio.file('modules/order', 0o644, '\n'.join(name for name, _ in modules).encode())
        with open(os.path.join(HERE, 'guest_init.py'), 'rb') as f:
            cpio.file('init', 0o755, f.read())
        cpio.close()
    if kernel is None:
        raise Unavailable('no kernel in the packages')
    with open(kernel_path, 'wb') as f:
        f.write(unpack_kernel(kernel))


# ---- the cache -------------------------------------------------------------------------------------------

def default_cache():
    base = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(base, 'rocemu-interop')


def recipe(release):
    digest = hashlib.sha256(release.encode())
    for name in ('guest_image.py', 'guest_init.py'):
        with open(os.path.join(HERE, name), 'rb') as f:
            digest.update(f.read())
    return digest.hexdigest()[:16]


def drop_unused(cache):
    """Guests of other recipes are removed when they were not started for a while: another checkout may still use its own."""
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        if name.endswith(('.kernel', '.initrd')) and os.stat(path).st_mtime < time.time() - UNUSED_S:
            os.unlink(path)


def get(cache, say):
    """(kernel, initrd), made when they are not in the cache."""
    release = codename()
    name = os.path.join(cache, f'{release}-{recipe(release)}')
    kernel, initrd = name + '.kernel', name + '.initrd'
    if os.path.exists(kernel) and os.path.exists(initrd):
        for path in (kernel, initrd):
            os.utime(path)
        return kernel, initrd
    say(f'making the guest of Debian {release} packages')
    os.makedirs(cache, exist_ok=True)
    drop_unused(cache)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        tar = download(release, work)
        made = os.path.join(work, 'kernel'), os.path.join(work, 'initrd')
        pack(tar, *made)
        os.rename(made[1], initrd)
        os.rename(made[0], kernel)
    return kernel, initrd
