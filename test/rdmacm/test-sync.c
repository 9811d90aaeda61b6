/* SPDX-License-Identifier: BSD-2-Clause */
/* Synchronous IDs, endpoints, rdma_getaddrinfo(), and what rdma_create_qp() and rdma_create_srq()
 * make by themselves. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "test.h"

static const struct ibv_qp_init_attr small = {
	.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	.sq_sig_all = 1,
};

struct server {
	struct rdma_cm_id *listener;
	char got[16];
	int result; /* 0, or the line that failed */
};

#define STEP(call)                       \
	do {                             \
		if (!(call))             \
			return __LINE__; \
	} while (0)

/* A server like rdma_server(1): takes a connection and a message, and answers. */
static int serve(struct server *s)
{
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	STEP(rdma_get_request(s->listener, &id) == 0);
	STEP(id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	STEP(id->qp && id->pd && id->send_cq && id->recv_cq);
	mr = rdma_reg_msgs(id, s->got, sizeof(s->got));
	STEP(mr);
	STEP(rdma_post_recv(id, NULL, s->got, sizeof(s->got), mr) == 0);
	STEP(rdma_accept(id, NULL) == 0);
	STEP(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	STEP(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	STEP(rdma_disconnect(id) == 0);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return 0;
}

static void *serve_in_thread(void *arg)
{
	struct server *s = arg;

	s->result = serve(s);
	return NULL;
}

static struct rdma_addrinfo *lookup(const char *node, const char *port, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;

	assert_int_equal(rdma_getaddrinfo(node, port, &hints, &res), 0);
	return res;
}

static struct rdma_cm_id *listening_ep(const char *node, uint16_t *port)
{
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;
	struct ibv_qp_init_attr attr = small;

	bench_namespace();
	res = lookup(node, "0", RAI_PASSIVE);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_listen(id, 0), 0);
	*port = ntohs(rdma_get_src_port(id));
	return id;
}

TEST(ep, both_sides_synchronous__a_message_goes_over)
{
	struct ibv_qp_init_attr attr = small;
	struct rdma_addrinfo *res;
	struct server s = {0};
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	pthread_t thread;
	struct ibv_wc wc;
	uint16_t port;
	char text[16] = "over there";
	char service[8];

	s.listener = listening_ep("127.0.0.1", &port);
	assert_int_equal(pthread_create(&thread, NULL, serve_in_thread, &s), 0);
	snprintf(service, sizeof(service), "%u", port);
	res = lookup("127.0.0.1", service, 0);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	assert_non_null(id->qp);
	mr = rdma_reg_msgs(id, text, sizeof(text));
	assert_non_null(mr);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_post_send(id, NULL, text, sizeof(text), mr, 0), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(s.result, 0);
	assert_string_equal(s.got, text);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(s.listener);
}

TEST(ep, nobody_listens__econnrefused)
{
	struct ibv_qp_init_attr attr = small;
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;
	uint16_t port;
	char service[8];

	rdma_destroy_ep(listening_ep("::1", &port));
	snprintf(service, sizeof(service), "%u", port);
	res = lookup("::1", service, 0);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	assert_errno(rdma_connect(id, NULL), ECONNREFUSED);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
}

TEST(ep, no_device_for_the_source__the_call_says_so)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
	struct rdma_cm_id *id;

	bench_namespace();
	assert_int_equal(rdma_getaddrinfo("192.0.2.1", "1", &hints, &res), 0);
	assert_errno(rdma_create_ep(&id, res, NULL, NULL), EADDRNOTAVAIL);
	rdma_freeaddrinfo(res);
}

TEST(getaddrinfo, hints__addresses_types_and_errors)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST}, *res;

	assert_errno(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7", NULL, &res), 0);
	assert_int_equal(res->ai_family, AF_INET);
	assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(res->ai_dst_len, sizeof(struct sockaddr_in));
	assert_int_equal(((struct sockaddr_in *)(void *)res->ai_dst_addr)->sin_port, htons(7));
	assert_null(res->ai_src_addr);
	assert_null(res->ai_next);
	rdma_freeaddrinfo(res);
	hints.ai_port_space = RDMA_PS_UDP;
	hints.ai_flags |= RAI_PASSIVE;
	assert_int_equal(rdma_getaddrinfo("::1", "7", &hints, &res), 0);
	assert_int_equal(res->ai_family, AF_INET6);
	assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
	assert_int_equal(res->ai_src_len, sizeof(struct sockaddr_in6));
	assert_null(res->ai_dst_addr);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_getaddrinfo("no-number", "7", &hints, &res), EAI_NONAME);
	hints.ai_qp_type = IBV_QPT_RC;
	assert_int_equal(rdma_getaddrinfo("::1", "7", &hints, &res), EAI_SOCKTYPE);
}

TEST(getaddrinfo, addresses_in_the_hints__copied)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *res;

	bench_namespace();
	hints.ai_src_addr = bench_addr("127.0.0.1", 0);
	hints.ai_src_len = sizeof(struct sockaddr_in);
	hints.ai_dst_addr = bench_addr("127.0.0.2", 9);
	hints.ai_dst_len = sizeof(struct sockaddr_in);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_memory_equal(res->ai_src_addr, hints.ai_src_addr, sizeof(struct sockaddr_in));
	assert_memory_equal(res->ai_dst_addr, hints.ai_dst_addr, sizeof(struct sockaddr_in));
	rdma_freeaddrinfo(res);
}

TEST(qp, nothing_given__default_pd_and_cqs)
{
	struct rdma_event_channel *ch = bench_channel();
	struct ibv_qp_init_attr attr = small;
	struct ibv_pd *pd;
	struct rdma_cm_id *id;

	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	assert_non_null(id->verbs);
	assert_int_equal(id->port_num, 1);
	pd = id->pd;
	assert_non_null(pd);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_ptr_equal(id->qp->pd, pd);
	assert_non_null(id->send_cq_channel);
	assert_ptr_equal(id->qp->send_cq, id->send_cq);
	assert_ptr_equal(id->qp->recv_cq, id->recv_cq);
	assert_ptr_equal(id->send_cq->cq_context, id);
	assert_errno(rdma_create_qp(id, NULL, &attr), EINVAL);
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_null(id->send_cq);
	attr = small;
	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(srq, on_an_id__its_qps_use_it)
{
	struct rdma_event_channel *ch = bench_channel();
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr attr = small;
	struct rdma_cm_id *id;

	attr.qp_type = IBV_QPT_RC;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_errno(rdma_create_srq(id, NULL, &srq), EINVAL); /* no device yet */
	assert_int_equal(rdma_bind_addr(id, bench_addr("127.0.0.1", 0)), 0);
	assert_int_equal(rdma_create_srq(id, NULL, &srq), 0);
	assert_non_null(id->srq);
	assert_errno(rdma_create_srq(id, NULL, &srq), EINVAL);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_ptr_equal(id->qp->srq, id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	assert_null(id->srq);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

TEST(devices, list__open_contexts)
{
	struct ibv_context **list;
	int n = 0;

	bench_namespace();
	list = rdma_get_devices(&n);
	assert_non_null(list);
	assert_true(n >= 1);
	assert_non_null(list[0]->device);
	assert_null(list[n]);
	rdma_free_devices(list);
}
