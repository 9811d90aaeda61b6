# SPDX-License-Identifier: BSD-2-Clause
"""Programs that find another libibverbs or librdmacm than rocemu's, by a path of their own: they get rocemu's, or print one
line with the reason."""
import os
import re
import shutil
import subprocess
import tempfile

from harness import NORMAL, QUICK, Case, Side, Skip, expect, run

SIDE = Side('dev0=lo', '127.0.0.1')
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'intercept-check.c')
NOT_OURS = "is not rocemu's and has no emulated devices: "


def cc(*args, compiler='gcc'):
    p = subprocess.run([compiler, *args], capture_output=True, text=True, check=False)
    if p.returncode:
        raise RuntimeError(f'{compiler} {" ".join(args)}\n{p.stderr}')


def system_file(name):
    """A library of the system's, its real path."""
    p = subprocess.run(['gcc', f'-print-file-name={name}'], capture_output=True, text=True, check=True)
    return os.path.realpath(p.stdout.strip())


class Place:
    """A directory with copies of the system's libraries, and what is built to use them."""

    def __init__(self, directory):
        self.directory = directory
        self.link = os.path.join(directory, 'link')
        os.mkdir(self.link)
        for name in ('libibverbs.so.1', 'librdmacm.so.1'):
            self.copy(name, name)

    def path(self, name):
        return os.path.join(self.directory, name)

    def copy(self, name, to):
        shutil.copy(system_file(name), self.path(to))

    def stand_in(self, soname, versions):
        """To link with: a library of this name with a function for each version. At run time it is another file."""
        names = {'IBVERBS_1.1': 'ibv_get_device_list', 'IBVERBS_PRIVATE_34': 'verbs_register_driver_34',
                 'IBVERBS_PRIVATE_57': 'verbs_register_driver_57'}
        nodes, code, out = '', '', os.path.join(self.link, f'{len(os.listdir(self.link))}.so')
        for version in versions:
            name = names.get(version, version.lower().replace('.', '_'))
            code += f'void {name}(void) {{}}\n'
            nodes += f'{version} {{ global: {name}; }};\n'
        script = out + '.map'
        with open(script, 'w', encoding='ascii') as f:
            f.write(nodes)
        with open(out + '.c', 'w', encoding='ascii') as f:
            f.write(code)
        cc('-shared', '-fPIC', out + '.c', '-o', out, f'-Wl,-soname,{soname}', f'-Wl,--version-script={script}')
        return out

    def program(self, name, *flags):
        """With -ldl alone it opens libraries, else it is linked with them."""
        cc(*[f for f in ('-DVERBS',) if '-ldl' not in flags], *[f for f in ('-DRDMACM',) if '-lrdmacm' in flags],
           SOURCE, '-o', self.path(name), *flags)
        return self.path(name)

    def extension(self, name, *flags):
        """A library with the function devices()."""
        return self.program(name, '-shared', '-fPIC', f'-Wl,-soname,{name}', '-Wl,--no-as-needed', *flags)

    def rpath(self, old=False):
        return ['-Wl,--disable-new-dtags' if old else '-Wl,--enable-new-dtags', f'-Wl,-rpath,{self.directory}']

    def wheel(self, name, digits):
        """An extension with its own libibverbs, named as auditwheel names it."""
        soname = f'libibverbs-{digits}.so.1.14.44.0'
        self.copy('libibverbs.so.1', soname)
        return self.extension(name, self.stand_in(soname, ['IBVERBS_1.1']), *self.rpath())


def case(function):
    """function(place, go): go runs a program and returns the Proc."""
    def wrapper(config, _lab):
        def go(*argv, env=None, options=(), user=None):
            # What a sanitizer's build preloads is not of interest here.
            return run(config, SIDE, argv, 'program', env, options, user=user)
        with tempfile.TemporaryDirectory(dir='/var/tmp') as directory:
            os.chmod(directory, 0o755)
            return function(Place(directory), go)
    return wrapper


def found(p, count=1):
    """It has rocemu's device, each time that it looked, and there is no message."""
    expect(p.popen.returncode == 0 and p.stdout == '1\n' * count and not p.stderr, 'not the device and nothing else', p)


def not_found(p, file, remedy):
    """It has no device, and one line reports it."""
    expect(p.popen.returncode == 0 and set(p.stdout.split()) <= {'0', '-1'} and p.stdout, 'devices of whom?', p)
    expect(p.stderr.count('\n') == 1 and p.stderr.startswith(f'rocemu: {file} {NOT_OURS}') and remedy in p.stderr,
           f'not one line with {file} and {remedy}', p)


# ---- taken ----

@case
def rpath(place, go):
    for old in (True, False):
        found(go(place.program('a', '-libverbs', *place.rpath(old))))
        found(go(place.program('b', '-libverbs', '-lrdmacm', *place.rpath(old))))


@case
def opened(place, go):
    """By dlopen(), with a path."""
    program = place.program('a', '-ldl')
    for file in ('libibverbs.so.1', place.path('libibverbs.so.1'), system_file('libibverbs.so.1'), '/nowhere/libibverbs.so'):
        found(go(program, file))
    found(go(program, '-' + place.path('librdmacm.so.1'), system_file('libibverbs.so.1')))


@case
def script(place, go):
    """Scripts that set or clear variables, and the dynamic linker as the command."""
    program = place.program('a', '-libverbs', '-lrdmacm')
    found(go('sh', '-c', f'LD_LIBRARY_PATH={place.directory} {program}'))
    found(go('bash', '-c', f'unset LD_PRELOAD LD_LIBRARY_PATH; exec {program}'))
    headers = subprocess.run(['readelf', '-lW', program], capture_output=True, text=True, check=True).stdout
    linker = re.search(r'interpreter: (\S+)\]', headers)[1]
    found(go(linker, '--library-path', place.directory, program))


@case
def wheels(place, go):
    """The names with hashes, alone and beside others, in any order."""
    one, two, program = place.wheel('one.so', '7b0ab5c3'), place.wheel('two.so', 'deadbeef'), place.program('a', '-ldl')
    for files in ((one,), (one, two), (two, one), ('libibverbs.so.1', one, two), (place.path('libibverbs.so.1'), two, one, two)):
        found(go(program, *files), len(files))
    found(go(place.program('b', '-Wl,--no-as-needed', one, two, '-libverbs', *place.rpath())))
    if shutil.which('python3'):
        code = f'import ctypes\nfor f in ({one!r}, {two!r}): print(ctypes.CDLL(f).devices())'
        found(go(shutil.which('python3'), '-c', code), 2)


@case
def bound(place, go):
    """Names with directories in them, as Spack links: the dynamic linker finds the versions of the first."""
    file = place.path('libibverbs.so.1')
    extension = place.extension('one.so', place.stand_in(file, ['IBVERBS_1.1']))
    program = place.program('a', '-ldl')
    found(go(program, extension, 'libibverbs.so.1'), 2)
    found(go(program, extension, system_file('libibverbs.so.1')), 2)
    # It cannot record the name for a file that is there already: the program has both, and goes on.
    p = go(program, '-libibverbs.so.1', extension)
    expect(p.popen.returncode == 0 and p.stdout in ('0\n', '1\n'), 'not run', p)
    expect(p.stdout == '1\n' or NOT_OURS in p.stderr, 'no device and no line', p)


@case
def providers(place, go):
    """Of another rdma-core, linked to the program or in a wheel."""
    soname = 'libibverbs-7b0ab5c3.so.1'
    place.copy('libibverbs.so.1', soname)
    for name, number in (('libibverbs.so.1', 57), (soname, 34)):
        stand_in = place.stand_in(name, ['IBVERBS_1.1', f'IBVERBS_PRIVATE_{number}'])
        provider = place.extension('libmlx5.so.1', stand_in, f'-Wl,-u,verbs_register_driver_{number}', *place.rpath())
        found(go(place.program('a', '-Wl,--no-as-needed,--allow-shlib-undefined', provider, '-libverbs', *place.rpath(True))))
        found(go(place.program('b', '-ldl'), provider))


@case
def thread_local(place, go):
    """A library that needs more static thread-local memory than the dynamic linker reserves beside an auditor."""
    source = place.path('tls.c')
    with open(source, 'w', encoding='ascii') as f:
        f.write('__thread char room[20000] __attribute__((tls_model("initial-exec")));\nchar *get_room(void) { return room; }\n')
    library = place.path('libroom.so')
    cc('-shared', '-fPIC', source, '-o', library)
    program = place.program('a', '-Wl,--no-as-needed', library, '-libverbs', *place.rpath(True))
    found(go(program))
    found(go(program, env={'GLIBC_TUNABLES': 'glibc.malloc.check=0'}))
    found(go('sh', '-c', f'LD_PRELOAD=$LD_PRELOAD:{library} {place.program("b", "-libverbs", *place.rpath(True))}'))
    p = go('sh', '-c', f'{program} && echo "$GLIBC_TUNABLES"')
    expect(p.stdout == '1\n\n', 'the tunable is not for the program alone', p)


@case
def other_auditors(place, go):
    """Of the user's: both work, and ours has the last word."""
    source = place.path('audit.c')
    with open(source, 'w', encoding='ascii') as f:
        f.write('#include <link.h>\n#include <string.h>\n#include <unistd.h>\n'
                'unsigned la_version(unsigned v) { write(2, "audited\\n", 8); return v; }\n'
                'char *la_objsearch(const char *n, uintptr_t *c, unsigned f)\n'
                '{ return strstr(n, "ibverbs") ? "/nowhere/libibverbs.so.1" : (char *)n; }\n')
    auditor = place.path('audit.so')
    cc('-D_GNU_SOURCE', '-shared', '-fPIC', '-w', source, '-o', auditor)
    program = place.program('a', '-libverbs', *place.rpath(True))
    p = go('env', program, env={'LD_AUDIT': auditor})
    # rocemu itself, env, and the program.
    expect(p.popen.returncode == 0 and p.stdout == '1\n' and p.stderr == 'audited\n' * 3, 'not both', p)


def nested(config, _lab):
    with tempfile.TemporaryDirectory(dir='/var/tmp') as directory:
        program = Place(directory).program('a', '-libverbs', '-Wl,--disable-new-dtags', f'-Wl,-rpath,{directory}')
        p = run(config, SIDE, [config.rocemu, 'run', '--device', 'inner=lo', '--', 'sh', '-c', f'{program}; echo $LD_AUDIT'])
        expect(p.stdout.startswith('1\n') and p.stdout.count('librocemu-audit') == 1 and not p.stderr, 'not once', p)


# ---- not taken, with a line ----

@case
def off(place, go):
    program, file = place.program('a', '-libverbs', *place.rpath(True)), place.path('libibverbs.so.1')
    env = {'ROCEMU_AUDIT': 'off'}
    not_found(go(program, env=env), file, 'ROCEMU_AUDIT')
    not_found(go('sh', '-c', program, env=env), file, 'ROCEMU_AUDIT')
    not_found(go(place.program('b', '-ldl'), file, env=env), file, 'ROCEMU_AUDIT')
    one = place.wheel('one.so', '7b0ab5c3')
    not_found(go(place.path('b'), one, one, env=env), place.path('libibverbs-7b0ab5c3.so.1.14.44.0'), 'ROCEMU_AUDIT')
    # Plain programs find the libraries all the same.
    found(go(place.program('c', '-libverbs', '-lrdmacm'), env=env))
    # Loaded, and no device looked for.
    p = go(place.path('b'), '-' + file, env=env)
    expect(p.popen.returncode == 0 and not p.output, 'a line for nothing', p)
    p = go(program, env={**env, 'ROCEMU_LOG': 'error'})
    expect(p.stdout == '0\n' and not p.stderr, 'a line at level error', p)
    p = go('true', env={'ROCEMU_AUDIT': 'perhaps'})
    expect(p.popen.returncode == 2 and 'ROCEMU_AUDIT: expected' in p.stderr, 'a wrong value is taken', p)


@case
def changed(place, go):
    """A script sets LD_AUDIT."""
    program = place.program('a', '-libverbs', *place.rpath(True))
    not_found(go('sh', '-c', f'unset LD_AUDIT; {program}'), place.path('libibverbs.so.1'), 'leave LD_AUDIT as rocemu run sets it')


@case
def newer(place, go):
    """What needs a version that rocemu's has not keeps its own, and runs."""
    soname = 'libibverbs-7b0ab5c3.so.1'
    with_newer = place.stand_in(soname, ['IBVERBS_1.1', 'IBVERBS_1.99'])
    shutil.copy(with_newer, place.path(soname))
    flags = ['-Wl,-u,ibverbs_1_99', *place.rpath()]
    place.extension('one.so', with_newer, *flags)
    # It looks for devices as a libibverbs does.
    program = place.program('a', '-ldl')
    p = go('sh', '-c', f'{program} -{place.path("one.so")} && echo done')
    expect(p.stdout == 'done\n' and not p.stderr, 'not run', p)
    source = place.path('look.c')
    with open(source, 'w', encoding='ascii') as f:
        f.write('#include <fcntl.h>\nint devices(void) { return open("/sys/class/infiniband_verbs/abi_version", O_RDONLY) < -1; }\n')
    cc('-shared', '-fPIC', source, '-o', place.path('look.so'))
    not_found(go(program, '-' + place.path('one.so'), place.path('look.so')), place.path(soname),
              'build rocemu with a newer rdma-core')
    # By the plain name as well, where rocemu's is not loaded yet.
    with_newer = place.stand_in('libibverbs.so.1', ['IBVERBS_1.1', 'IBVERBS_1.99'])
    shutil.copy(with_newer, place.path('libibverbs.so.1'))
    place.extension('two.so', with_newer, *flags)
    not_found(go(program, '-' + place.path('two.so'), place.path('look.so')), place.path('libibverbs.so.1'),
              'build rocemu with a newer rdma-core')


def warned(p, *words):
    """One line of rocemu's, and the program runs."""
    lines = [line for line in p.stderr.splitlines() if line.startswith('rocemu: ')]
    expect(len(lines) == 1 and all(w in lines[0] for w in words), f'not one line with {words}', p)


@case
def static(place, go):
    program = place.path('a')
    source = place.path('static.c')
    with open(source, 'w', encoding='ascii') as f:
        f.write('#include <stdio.h>\n#ifdef PATH\nconst char *path = PATH;\n#endif\nint main(void) { puts("1"); return 0; }\n')
    for kind in ('-static', '-static-pie'):
        cc(kind, '-DPATH="/sys/class/infiniband/"', source, '-o', program)
        p = go(program)
        warned(p, program, 'statically linked', 'shared libibverbs')
        expect(p.stdout == '1\n', 'not run', p)
        warned(go('a', env={'PATH': place.directory + ':' + os.environ['PATH']}), program, 'statically linked')
        p = go(program, env={'ROCEMU_LOG': 'error'})
        expect(p.stdout == '1\n' and not p.stderr, 'a line at level error', p)
        # It is none of ours, or only what another command starts.
        found(go('sh', '-c', program))
        cc(kind, source, '-o', program)
        found(go(program))
    cc('-static', r'-DPATH="/sys/class/infiniband/\xff Go buildinf:"', source, '-o', program)
    warned(go(program), program, 'static Go program', 'cgo', '--mount-paths')


@case
def privileged(place, go):
    program = place.program('a', '-libverbs')
    if os.geteuid() != 0:
        raise Skip('making a set-user-ID program needs root')
    for mode, words in ((0o4755, 'is set-user-ID'), (0o2755, 'is set-group-ID')):
        os.chmod(program, mode)
        warned(go(program, user=65534), program, words, 'rocemu run ...')
        found(go(program))
    os.chmod(program, 0o755)
    if shutil.which('setcap') and subprocess.run(['setcap', 'cap_net_raw+ep', program], check=False).returncode == 0:
        warned(go(program, user=65534), program, 'has file capabilities')
        found(go(program))


@case
def foreign_machine(place, go):
    """A program of 32 bits, another C library."""
    program = place.path('a')
    with open(program, 'wb') as f:
        f.write(b'\x7fELF\x01\x01\x01' + bytes(9) + b'\x02\0\x03\0\x01\0\0\0' + bytes(28) + b'libibverbs.so.1\0')
    os.chmod(program, 0o755)
    p = go(program)
    warned(p, program, '32-bit program for machine 3')
    if not shutil.which('musl-gcc'):
        return 'without musl-gcc'
    with open(place.path('musl.c'), 'w', encoding='ascii') as f:
        f.write('const char *name = "libibverbs.so.1"; int main(void) { return 0; }\n')
    cc(place.path('musl.c'), '-o', program, compiler='musl-gcc')
    warned(go(program), program, 'musl')
    return None


def alone(config, _lab):
    """The auditor needs no library and no thread-local memory, of which the dynamic linker has little for auditors."""
    file = os.path.join(config.build, 'src', 'interpose', 'librocemu-audit.so')
    text = subprocess.run(['readelf', '-dlsW', file], capture_output=True, text=True, check=True).stdout
    expect('la_objsearch' in text and not re.search(r'\(NEEDED\)|^ +TLS +|\bUND [a-z_]', text, re.M), text)


CASES = {
    'alone': (alone, NORMAL),
    'rpath': (rpath, QUICK), 'opened': (opened, QUICK), 'script': (script, NORMAL), 'wheels': (wheels, QUICK),
    'bound': (bound, NORMAL), 'providers': (providers, NORMAL), 'thread_local': (thread_local, NORMAL),
    'other_auditors': (other_auditors, NORMAL), 'nested': (nested, NORMAL), 'off': (off, QUICK), 'changed': (changed, NORMAL),
    'newer': (newer, NORMAL), 'static': (static, NORMAL), 'privileged': (privileged, NORMAL),
    'foreign_machine': (foreign_machine, NORMAL),
}


def cases():
    return [Case(f'intercept/{name}', function, level) for name, (function, level) in CASES.items()]
