# SPDX-License-Identifier: BSD-2-Clause
"""Objects of manifests against the types of Kubernetes' API, as Debian's python3-kubernetes has
them, and against the Pod Security Standard "restricted"."""
import re

try:
    from kubernetes.client import models
except ImportError:
    models = None

SCALARS = {'str': str, 'int': int, 'bool': bool, 'object': (str, int)}


def typed(value, kind, path):
    """The value as an object of the API's type; an AssertionError names what does not fit."""
    if kind in SCALARS:
        fits = isinstance(value, SCALARS[kind]) and not (kind == 'int' and value is True)
        assert fits, f'{path}: {value!r} is no {kind}'
        return value
    m = re.fullmatch(r'list\[(.*)\]', kind)
    if m:
        assert isinstance(value, list), f'{path}: no list'
        return [typed(v, m[1], f'{path}[{i}]') for i, v in enumerate(value)]
    m = re.fullmatch(r'dict\(str, (.*)\)', kind)
    if m:
        assert isinstance(value, dict), f'{path}: no map'
        return {k: typed(v, m[1], f'{path}.{k}') for k, v in value.items()}
    cls = getattr(models, kind)
    fields = {json: name for name, json in cls.attribute_map.items()}
    assert isinstance(value, dict), f'{path}: no {kind}'
    built = {}
    for key, v in value.items():
        assert key in fields, f'{path}: {kind} has no field {key}'
        built[fields[key]] = typed(v, cls.openapi_types[fields[key]], f'{path}.{key}')
    try:
        return cls(**built)
    except ValueError as e:
        raise AssertionError(f'{path}: {kind}: {e}') from None


API = {'Namespace': 'v1', 'ConfigMap': 'v1', 'Service': 'v1', 'Job': 'batch/v1',
       'StatefulSet': 'apps/v1', 'DaemonSet': 'apps/v1',
       'NetworkPolicy': 'networking.k8s.io/v1'}


def check(document):
    kind = document['kind']
    assert document['apiVersion'] == API[kind], f'{kind}: apiVersion {document["apiVersion"]}'
    typed(document, 'V1' + kind, f'{kind}/{document["metadata"]["name"]}')


def restricted(name, pod):
    """The standard's rules for Linux pods."""
    for field in ('hostNetwork', 'hostPID', 'hostIPC'):
        assert not pod.get(field), f'{name}: {field}'
    for volume in pod.get('volumes', []):
        kind, = set(volume) - {'name'}
        assert kind in ('configMap', 'secret', 'emptyDir'), f'{name}: volume of kind {kind}'
    for container in pod['containers'] + pod.get('initContainers', []):
        context = {**pod.get('securityContext', {}), **container.get('securityContext', {})}
        where = f'{name}: {container["name"]}'
        assert context.get('allowPrivilegeEscalation') is False, where
        assert context.get('runAsNonRoot') is True and context.get('runAsUser') != 0, where
        assert context.get('seccompProfile', {}).get('type') in ('RuntimeDefault', 'Localhost'), \
            where
        assert context.get('capabilities', {}).get('drop') == ['ALL'], where
        assert not context['capabilities'].get('add') and not context.get('privileged'), where
        assert not any('hostPort' in p for p in container.get('ports', [])), where
