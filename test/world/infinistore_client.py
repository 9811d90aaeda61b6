# SPDX-License-Identifier: BSD-2-Clause
"""A client of InfiniStore, by its Python module: infinistore_client.py ADDRESS PORT DEVICE NAME.

Puts blocks and gets them over another connection. One request has more blocks than a batch of the server's work requests.
"""
import asyncio
import random
import sys

import numpy
from infinistore import LINK_ETHERNET, TYPE_RDMA, TYPE_TCP, ClientConfig, InfinityConnection, InfiniStoreKeyNotFound

SHAPES = ((1, 4096), (100, 4096), (40, 65536), (8, 1 << 20), (3, 5000))      # blocks and their bytes
AT_ONCE = 8                           # requests


def connect(address, port, device, kind):
    connection = InfinityConnection(ClientConfig(host_addr=address, service_port=port, dev_name=device, link_type=LINK_ETHERNET,
                                                 connection_type=kind))
    connection.connect()
    return connection


def compare(got, put, what):
    if not numpy.array_equal(got, put):
        raise SystemExit(f'{what}: byte {int(numpy.nonzero(got != put)[0][0])} of {put.size} differs')


async def shape(writer, reader, name, blocks, size):
    """So many requests at once, each with all blocks; then the same back, into other memory, in another order."""
    put = numpy.random.default_rng(blocks * size).integers(0, 256, AT_ONCE * blocks * size, numpy.uint8)
    got = numpy.zeros_like(put)
    writer.register_mr(put.ctypes.data, put.nbytes)
    reader.register_mr(got.ctypes.data, got.nbytes)
    requests = [[(f'{name} {blocks} {size} {i} {j}', (i * blocks + j) * size) for j in range(blocks)] for i in range(AT_ONCE)]
    await asyncio.gather(*[writer.rdma_write_cache_async(r, size, put.ctypes.data) for r in requests])
    random.Random(size).shuffle(requests)
    await asyncio.gather(*[reader.rdma_read_cache_async(r, size, got.ctypes.data) for r in requests])
    compare(got, put, f'{blocks} blocks of {size} bytes')
    return [key for r in requests for key, _ in r], (put, got)


async def missing(reader, name):
    there = numpy.zeros(4096, numpy.uint8)
    reader.register_mr(there.ctypes.data, there.nbytes)
    try:
        await reader.rdma_read_cache_async([(f'{name} missing', 0)], there.nbytes, there.ctypes.data)
    except InfiniStoreKeyNotFound:
        return there
    raise SystemExit('a key that is not there was found')


def tcp(connection, reader, name):
    """Put over TCP, got over RDMA."""
    put = numpy.random.default_rng(1).integers(0, 256, 100000, numpy.uint8)
    got = numpy.zeros_like(put)
    key = f'{name} by TCP'
    connection.tcp_write_cache(key, put.ctypes.data, put.nbytes)
    compare(connection.tcp_read_cache(key), put, 'TCP')
    reader.register_mr(got.ctypes.data, got.nbytes)
    asyncio.run(reader.rdma_read_cache_async([(key, 0)], got.nbytes, got.ctypes.data))
    compare(got, put, 'put over TCP, got over RDMA')
    return got


def delete(connection, keys):
    if not all(connection.check_exist(key) for key in keys):
        raise SystemExit('a key that was put is not there')
    if connection.delete_keys(keys) != len(keys) or connection.check_exist(keys[0]):
        raise SystemExit('keys were not deleted')


def main():
    address, port, device, name = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    writer, reader, plain = (connect(address, port, device, kind) for kind in (TYPE_RDMA, TYPE_RDMA, TYPE_TCP))
    memory, count = [], 0             # registered until the connections are closed
    for blocks, size in SHAPES:
        keys, buffers = asyncio.run(shape(writer, reader, name, blocks, size))
        memory.append(buffers)
        delete(writer, keys)
        count += len(keys)
    memory.append(asyncio.run(missing(reader, name)))
    memory.append(tcp(plain, reader, name))
    for connection in (writer, reader, plain):
        connection.close()
    print(f'{count} blocks')


if __name__ == '__main__':
    main()
