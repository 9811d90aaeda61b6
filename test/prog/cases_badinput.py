# SPDX-License-Identifier: BSD-2-Clause
"""Wrong options, devices, files and ports: one clear message, the right exit code, no crash."""
import os
import re
import signal
import socket
import tempfile

from harness import (NORMAL, QUICK, Case, Proc, Side, Skip, expect, listening, new_port, own_loopback, sanitizer_env,
                     start, wait_gone)

USAGE, FAILED = 2, 1
ROCE_PORT = 4791


def rocemu(config, *argv, env=None):
    p = Proc([config.rocemu, *argv], {**sanitizer_env(config), **(env or {})}, name='rocemu')
    p.wait()
    return p


def refuses(name, argv, says, code=USAGE, env=None):
    """`rocemu argv...` ends with this code and its stderr has these words; few lines, no crash."""

    def check(config, lab):
        p = rocemu(config, *argv, env=env)
        expect(p.popen.returncode == code, f'exit code {p.popen.returncode}, not {code}', p)
        for word in says:
            expect(word in p.stderr, f'"{word}" is not in the message', p)
        return p.stderr.strip().splitlines()[0] if p.stderr.strip() else ''

    return Case(f'badinput/{name}', check, QUICK)


def impairments():
    for n, (spec, word) in enumerate((
            ('loss', 'loss'), ('loss=', 'loss'), ('loss=2', 'loss'), ('loss=101%', 'loss'), ('loss=-1%', 'loss'),
            ('delay=5', 'delay'), ('delay=10us..', 'delay'), ('delay=2ms..1ms', 'delay'),
            ('seed=x', 'seed'), ('nonsense=1', 'nonsense'), ('loss=nan', 'loss'), ('flap=1s', 'UP/DOWN'), ('flap=1us/1s', '10ms'), ('loss=1%;drip', 'drip'), ('drop nth=0', 'column 6'), ('queue=64k', 'rate='))):
        yield refuses(f'impair_{n}', ('run', '--impair', spec, '--', 'true'), (word,))


def impairment_files(config, lab):
    """Files that have no end, or no beginning, are refused within some seconds, and cost no memory."""
    with tempfile.TemporaryDirectory(prefix='rocemu-impair-') as d:
        def path(name, data):
            with open(os.path.join(d, name), 'wb') as f:
                f.write(data)
            return f.name

        os.mkfifo(os.path.join(d, 'fifo'))
        for file, word in (('/dev/zero', 'at most 65536 bytes'), (d, 'directory'), (os.path.join(d, 'fifo'), 'timed out'),
                           (path('nul', b'loss=1%\0'), 'NUL'), (path('long', b'loss=' + b'1' * 60000), 'line 1'),
                           (path('rules', b'drop every=2\n' * 4000), 'rules'), (path('number', b'drop nth=99999999999999999999999'), 'nth')):
            p = rocemu(config, 'run', '--impair-file', file, '--', 'true')
            expect(p.popen.returncode == USAGE and word in p.stderr and p.age() < 60, f'{file}: {p.popen.returncode}', p)
            expect(len(p.stderr) < 2000, f'{file}: {len(p.stderr)} bytes of text', p)


def passes_on(config, lab):
    """Exit codes and signals of the program are those of `rocemu run`."""
    for script, code in (('exit 0', 0), ('exit 7', 7), ('kill -TERM $$', -signal.SIGTERM), ('kill -KILL $$', -9)):
        p = rocemu(config, 'run', '--', 'sh', '-c', script)
        expect(p.popen.returncode == code, f'{script}: {p.popen.returncode}, not {code}', p)


def help_texts(config, lab):
    for argv in ((), ('run',), ('devices',), ('decode',), ('agent',)):
        p = rocemu(config, *argv, '--help')
        expect(p.popen.returncode == 0 and 'usage' in p.stdout, f'{argv}: no help', p)
    p = rocemu(config, '--version')
    expect(p.popen.returncode == 0 and re.search(r'\d+\.\d+', p.stdout), 'no version', p)


def env_device(config, lab):
    """The same mistakes in the environment, where only the library sees them."""
    argv = [config.rocemu, 'run', '--', 'env', 'ROCEMU_DEVICES=nope0', 'ibv_devices']
    p = Proc(argv, sanitizer_env(config), name='ibv_devices')
    p.wait()
    expect('nope0' in p.stderr and 'lo' in p.stderr, 'no message that names it and what there is', p)
    expect(p.popen.returncode >= 0, 'crashed', p)


def env_impair(config, lab):
    side = lab.get('lo').client
    argv = ['env', 'ROCEMU_IMPAIR=loss=lots', 'ibv_rc_pingpong', '-d', side.name, '-g', '0', '-p', str(new_port())]
    p = start(config, side, argv, 'pingpong')
    p.wait()
    expect(p.popen.returncode > 0 and 'loss=lots' in p.stderr, 'not refused clearly', p)


def env_pcap(config, lab):
    side = lab.get('lo').client
    argv = ['env', 'ROCEMU_PCAP=/proc/nonexistent/x.pcap', 'ibv_rc_pingpong', '-d', side.name, '-g', '0', '-p',
            str(new_port())]
    p = start(config, side, argv, 'pingpong')
    p.wait()
    expect(p.popen.returncode > 0 and '/proc/nonexistent/x.pcap' in p.stderr, 'not refused clearly', p)


def check_port_taken(config, bound, device):
    """With UDP port 4791 of `bound` in use, a program on `device` gets an error."""
    side = Side(f'dev0={device}', device)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((bound, ROCE_PORT))
        for agent in ('on', 'off'):
            argv = ['ibv_rc_pingpong', '-d', 'dev0', '-g', '0', '-p', str(new_port())]
            p = start(config, side, argv, 'pingpong', {'ROCEMU_AGENT': agent})
            p.wait()
            expect(p.popen.returncode > 0, f'exit code {p.popen.returncode}', p)
            expect(str(ROCE_PORT) in p.stderr and device in p.stderr, 'the message names neither', p)
    return p.stderr.strip().splitlines()[0]


def port_taken(config, lab):
    return check_port_taken(config, '127.0.0.9', '127.0.0.9')


def port_taken_wildcard(config, lab):
    """Taken for all addresses. In a network namespace of its own: here agents have sockets, so that the wildcard
    address would be refused to the other program instead."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if own_loopback():
                check_port_taken(config, '0.0.0.0', '127.0.0.11')
                code = 0
            else:
                code = 77
        except Exception as e:  # pylint: disable=broad-except # reported by the exit code
            print(e, flush=True)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 77:
        raise Skip('a network namespace of its own needs root')
    expect(code == 0, 'not refused clearly (see above)')


def pcap_unwritable(config, lab):
    with tempfile.TemporaryDirectory() as d:
        for path in ('/proc/nonexistent/x.pcap', d):
            p = rocemu(config, 'run', '--pcap', path, '--', 'true')
            expect(p.popen.returncode == USAGE and path in p.stderr, f'{path} not refused', p)


def decode_bad_files(config, lab):
    with tempfile.TemporaryDirectory() as d:
        contents = {'empty': b'', 'text': b'this is no capture, but long enough to be one\n' * 3,
                    'cut': b'\x4d\x3c\xb2\xa1\x02\x00\x04\x00' + bytes(8) + b'\xff\xff\x00\x00\x01\x00\x00\x00' + b'\x01' * 9,
                    'huge': b'\x4d\x3c\xb2\xa1\x02\x00\x04\x00' + bytes(8) + b'\xff\xff\x00\x00\x01\x00\x00\x00' + b'\xff' * 40}
        for name, content in contents.items():
            path = os.path.join(d, name)
            with open(path, 'wb') as f:
                f.write(content)
            p = rocemu(config, 'decode', path)
            expect(p.popen.returncode in (FAILED, USAGE) and p.stderr.strip(), f'{name}: not refused', p)
        p = rocemu(config, 'decode', os.path.join(d, 'missing'))
        expect(p.popen.returncode in (FAILED, USAGE) and 'missing' in p.stderr, 'a missing file', p)


def unsupported(config, lab):
    """Verbs that are not there yet: the program's own error, never a crash or a hang."""
    side = lab.get('lo').client
    for argv in (['ib_send_bw', '-d', side.name, '-c', 'DC', '-F'],
                 ['ib_write_bw', '-d', side.name, '-c', 'DC', '-F']):
        port = new_port()
        server = start(config, side, argv + ['-p', str(port)], 'server')
        client = None
        try:
            # perftest finds out only after it has met its peer.
            while server.running() and not listening(port, server.pid):
                wait_gone(server, 0.02)
            if server.running():
                client = start(config, side, argv + ['-p', str(port), '127.0.0.1'], 'client')
                client.wait(30)
            code = server.wait(30)
            expect(code > 0, f'exit code {code}', server)
            expect(server.output.strip(), 'no message', server)
        finally:
            server.kill()
            if client:
                client.kill()


def cases():
    return [
        refuses('command', ('frobnicate',), ('frobnicate',)),
        refuses('no_command', (), ('usage',)),
        refuses('run_option', ('run', '--frobnicate', '--', 'true'), ('frobnicate',)),
        refuses('log', ('run', '--log', 'loud', '--', 'true'), ('--log: loud', '"why"', '"debug"')),
        refuses('wire', ('run', '--wire', 'tcp', '--', 'true'), ('--wire: tcp', '"udp" or "shm"')),
        refuses('run_nothing', ('run',), ('no command',)),
        refuses('run_not_found', ('run', '--', 'no-such-program-here'), ('no-such-program-here',), code=127),
        refuses('run_not_executable', ('run', '--', '/etc/passwd'), ('/etc/passwd',), code=126),
        refuses('device', ('run', '--device', 'x=nope0', '--', 'true'), ('nope0', 'lo')),
        refuses('device_address', ('run', '--device', 'x=203.0.113.77', '--', 'true'), ('203.0.113.77',)),
        refuses('device_name', ('run', '--device', 'a/b=lo', '--', 'true'), ('a/b',)),
        refuses('device_twice', ('run', '--device', 'a=lo,a=127.0.0.2', '--', 'true'), ('a',)),
        refuses('devices_option', ('devices', '--frobnicate'), ('frobnicate',)),
        refuses('agent_option', ('agent', '--frobnicate'), ('frobnicate',)),
        refuses('agent_timeout', ('agent', '--idle-timeout', 'soon'), ('soon',)),
        refuses('decode_nothing', ('decode',), ('capture file',)),
        refuses('decode_limit', ('decode', '--limit', 'many', '/dev/null'), ('many',)),
        *impairments(),
        Case('badinput/exit_codes', passes_on, QUICK),
        Case('badinput/help', help_texts, QUICK),
        Case('badinput/env_device', env_device),
        Case('badinput/env_impair', env_impair),
        Case('badinput/impair_files', impairment_files),
        Case('badinput/env_pcap', env_pcap),
        Case('badinput/pcap_unwritable', pcap_unwritable, QUICK),
        Case('badinput/port_taken', port_taken, QUICK),
        Case('badinput/port_taken_wildcard', port_taken_wildcard, NORMAL),
        Case('badinput/decode_bad_files', decode_bad_files),
        Case('badinput/unsupported_verbs', unsupported),
    ]
