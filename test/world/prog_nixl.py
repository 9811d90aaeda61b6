# SPDX-License-Identifier: BSD-2-Clause
"""NIXL (transfers between the memories of inference servers): its test of two agents, by its plugin for UCX.

Built by meson in its source tree, without CUDA: -Denable_plugins=UCX -Ducx_path=... The names of its test and of its plugin
are searched for.
"""
import os

from harness import Skip, expect, new_port
from program import Program, Run, ended_together

TEST = 'test/nixl/nixl_test'
PLUGIN = 'libplugin_UCX.so'
# Metadata goes by TCP. Each process has an agent of 4 workers.
ENV = {'UCX_TLS': 'rc_verbs,ud_verbs'}
THREADS = 4


def found(path):
    """The test, and the directory of the plugin."""
    test = plugins = None
    for directory, _, files in os.walk(path):
        if os.access(os.path.join(directory, os.path.basename(TEST)), os.X_OK) and directory.endswith(os.path.dirname(TEST)):
            test = os.path.join(directory, os.path.basename(TEST))
        if PLUGIN in files:
            plugins = directory
    if not test or not plugins:
        raise Skip(f'no {TEST} or {PLUGIN} under {path}: build them')
    return test, plugins


def transfers(world):
    """Each of 4 threads of an agent writes two buffers to another's, which checks them."""
    test, plugins = found(world.source)
    port = str(new_port())
    env = dict(ENV, NIXL_PLUGIN_DIR=plugins)
    first = world.start(world.server, [test, 'target', world.server.tcp, port], 'target', env)
    first.wait_listening(int(port))
    second = world.start(world.client, [test, 'initiator', world.server.tcp, port], 'initiator', env)
    ended_together((first, second), '')
    for p, text in ((first, 'UCX Transfer Success'), (second, 'Completed Sending Data')):
        expect(p.output.count(text) == THREADS, f'{p.name}: not {THREADS} times "{text}"', p)


PROGRAMS = [Program('NIXL', [
    Run('nixl_test: two agents of 4 threads, WRITEs and notifications by UCX', transfers),
], needs='`UCX_TLS=rc_verbs,ud_verbs`', source='nixl')]
