#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The recipes for CI systems: what docs/ci.md shows, and the action and the include file that it names, as a runner
executes them, by an ordinary user.

usage: ci.py MESON BUILD_DIR PREFIX SOURCE_ROOT

Packages are installed and rocemu is built beforehand: what is tested is that the steps work, and need no privileges.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import ci_tree
from ci_tree import skip

GUARD_S = 300
PROGRAMS = ('bash', 'git', 'ip', 'ss', 'setpriv', 'ibv_devinfo', 'ibv_rc_pingpong', 'ib_write_bw', 'rping')
NEEDS_SUDO = '/proc/sys/kernel/apparmor_restrict_unprivileged_userns'


class Job:
    """One job of a CI system: a directory, an environment, steps."""

    def __init__(self, work, name, prefix, page):
        self.directory = work / name
        self.directory.mkdir()
        shutil.copytree(prefix, self.directory / '.rocemu', symlinks=True)    # as a cache has it
        scripts = [b for b in ci_tree.blocks(page, 'sh') if b.startswith('#!')]
        assert len(scripts) == 1, 'docs/ci.md has one script, two-hosts.sh'
        (self.directory / 'two-hosts.sh').write_text(scripts[0], encoding='utf-8')
        self.environment = ci_tree.environment(self.directory, '/nonexistent')
        self.environment['ROCEMU_NO_INSTALL'] = '1'

    def own(self):
        if os.geteuid() == 0:
            subprocess.run(['chown', '-R', f'{ci_tree.USER_ID}:{ci_tree.USER_ID}', self.directory], check=True)

    def run(self, name, shell, script, env=None):
        """shell: a command in which {0} is the file with the script."""
        path = self.directory / 'step.sh'
        path.write_text(script, encoding='utf-8')
        command = [str(path) if word == '{0}' else word for word in shlex.split(shell)]
        p = subprocess.run([*ci_tree.as_user(), *command], cwd=self.directory, env={**self.environment, **(env or {})},
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=GUARD_S, check=False)
        assert p.returncode == 0, f'step "{name}": exit code {p.returncode}\n{p.stdout[-4000:]}'
        print(f'ok {name}', flush=True)
        return p.stdout


def fill(text, values):
    """Expressions of GitHub's: those that the recipes use."""
    def value(match):
        assert match[1] in values, f'"{match[0]}" is not known'
        return values[match[1]]
    return re.sub(r'\$\{\{ *([\w.]+) *\}\}', value, text)


class Action(Job):
    """A job of GitHub's."""

    SHELLS = {None: 'bash -e {0}', 'bash': 'bash --noprofile --norc -eo pipefail {0}'}

    def __init__(self, work, prefix, page, source):
        super().__init__(work, 'github', prefix, page)
        self.source = source
        self.environment['GITHUB_PATH'] = str(self.directory / 'github-path')
        (self.directory / 'github-path').touch()
        self.own()

    def step(self, step, values):
        assert set(step) <= {'name', 'run', 'shell', 'env', 'if'}, step
        condition = step.get('if', 'always')
        if condition != 'always':
            left, right = re.fullmatch(r"([\w.]+) == '(\w+)'", condition).groups()
            if values[left] != right:
                return
        env = {name: fill(text, values) for name, text in step.get('env', {}).items()}
        shell = step.get('shell')
        self.run(step.get('name', step['run']), self.SHELLS.get(shell, shell), fill(step['run'], values), env)
        for line in (self.directory / 'github-path').read_text(encoding='utf-8').splitlines():
            if line not in self.environment['PATH'].split(':'):
                self.environment['PATH'] = f'{line}:{self.environment["PATH"]}'

    def use(self, path, given, yaml):
        action = self.source / path
        text = yaml.safe_load((action / 'action.yml').read_text(encoding='utf-8'))
        assert text['runs']['using'] == 'composite' and set(given) <= set(text['inputs'])
        values = {'github.action_path': str(action), 'github.workspace': str(self.directory)}
        for name, about in text['inputs'].items():
            values[f'inputs.{name}'] = fill(str(given.get(name, about['default'])), values)
        for step in text['runs']['steps']:
            self.step(step, values)


def run_github(work, prefix, page, source, yaml):
    workflows = [b for b in (yaml.safe_load(t) for t in ci_tree.blocks(page, 'yaml')) if 'jobs' in b]
    assert len(workflows) == 1
    job = Action(work, prefix, page, source)
    for step in workflows[0]['jobs']['rdma']['steps']:
        if step.get('uses', '').startswith('actions/checkout@'):
            continue
        if 'uses' in step:
            owner, path = re.fullmatch(r'(OWNER/rocemu)/([\w/]+)@main', step['uses']).groups()
            assert owner
            job.use(path, step.get('with', {}), yaml)
        else:
            job.step(step, {})


def run_gitlab(work, prefix, page, source, yaml):
    pages = [b for b in (yaml.safe_load(t) for t in ci_tree.blocks(page, 'yaml')) if 'include' in b]
    assert len(pages) == 1
    own = pages[0]['rdma']
    base = yaml.safe_load((source / pages[0]['include'][0]['file']).read_text(encoding='utf-8'))[own['extends']]
    job = Job(work, 'gitlab', prefix, page)
    shutil.copytree(source, job.directory / '.rocemu/source')    # as the cache has it
    job.own()
    job.environment.update(base['variables'])
    job.environment.update(own['variables'])
    # One shell for all, as GitLab's runner has it.
    for line in own['script']:
        assert isinstance(line, str), line
    out = job.run('GitLab: before_script and script', 'bash -eo pipefail {0}', '\n'.join(base['before_script'] + own['script']))
    assert out.count('rocemu_eth0') or out.count('rocemu_lo'), out


def main():
    meson, build, prefix, root = sys.argv[1:5]
    try:
        import yaml     # pylint: disable=import-outside-toplevel
    except ImportError:
        skip('python3-yaml is not installed')
    if os.path.exists(NEEDS_SUDO) and pathlib.Path(NEEDS_SUDO).read_text(encoding='ascii').strip() != '0':
        skip('AppArmor restricts user namespaces here, and it takes root to change that')
    ci_tree.need(PROGRAMS)
    with tempfile.TemporaryDirectory(prefix='rocemu-ci-') as directory:
        work = pathlib.Path(directory)
        work.chmod(0o755)
        tree = ci_tree.install(meson, build, prefix, work)
        source = work / 'source'    # what a runner checks out, as far as it is looked at
        shutil.copytree(pathlib.Path(root) / 'packaging', source / 'packaging')
        (source / 'tools').mkdir()
        shutil.copy(pathlib.Path(root) / 'tools/packages.sh', source / 'tools')
        page = pathlib.Path(root) / 'docs/ci.md'
        run_github(work, tree, page, source, yaml)
        run_gitlab(work, tree, page, source, yaml)


if __name__ == '__main__':
    main()
