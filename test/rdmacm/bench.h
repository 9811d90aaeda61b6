/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends of a connection in one process, by the public calls of librdmacm alone, in a network
 * namespace of the test's own. Every wait has a hang guard; what does not come fails the test.
 */
#ifndef TEST_RDMACM_BENCH_H
#define TEST_RDMACM_BENCH_H

#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>

/** A namespace with lo up, before anything else; skips the test where none can be had. */
void bench_namespace(void);

/** A socket address: "127.0.0.1", "::1" or "fe80::1%p0". Borrowed until the next call but three. */
struct sockaddr *bench_addr(const char *text, uint16_t port);

/** The same as a GID (AF_IB), with a service ID. */
struct sockaddr *bench_gid(const char *text, uint64_t service_id, uint64_t mask);
/** Give lo a link-local IPv6 address. */
void bench_link_local(const char *text);
/** Run "ip COMMAND" in the namespace; skips the test where interfaces cannot be changed. */
void bench_ip(const char *command);
/** Is the interface up and running? */
bool bench_runs(const char *name);
/**
 * An interface p0 with 10.1.1.1/24 and 10.1.1.2/24, one end of a veth pair; both ends are up. Its
 * neighbour 10.1.1.9 has an entry, though no host has it; others have to be resolved.
 */
void bench_veth(void);

struct rdma_event_channel *bench_channel(void);

/** The next event, which must be of that type. To be acknowledged. */
struct rdma_cm_event *bench_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type);
/** The same, acknowledged. @return its status. */
int bench_expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type);
/** Fail if an event waits. */
void bench_no_event(struct rdma_event_channel *ch);

/** An ID that listens on a port of its own. */
struct rdma_cm_id *bench_listener(struct rdma_event_channel *ch, const char *addr,
				  enum rdma_port_space ps, int backlog);
/** An ID with address and route of a listener's port resolved. */
struct rdma_cm_id *bench_client(struct rdma_event_channel *ch, const char *addr,
				const struct rdma_cm_id *listener);
/** A QP of the ID's own, with default PD and CQs. */
void bench_qp(struct rdma_cm_id *id);

/** Listener, client and server side of a connection that is there. */
struct bench {
	struct rdma_event_channel *cch, *sch;
	struct rdma_cm_id *listener, *client, *server;
};

void bench_connect(struct bench *b, const char *addr);
void bench_end(struct bench *b);

/** Fail the test unless a call that returns -1 with errno does so. */
#define assert_errno(call, err)                 \
	do {                                    \
		errno = 0;                      \
		assert_int_equal((call), -1);   \
		assert_int_equal(errno, (err)); \
	} while (0)

#endif
