/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * habits PART [WHAT]: what ordinary programs do to a process: threads with small stacks, threads
 * that are cancelled, forks, exits in signals' handlers. Prints what failed; exit code 0 or 1. A
 * hang is the runner's to find.
 */
#include <arpa/inet.h>
#include <sys/wait.h>
#include <unistd.h>

#include "habits.h"

_Thread_local unsigned cancel_at;

void step(void)
{
	if (cancel_at && --cancel_at == 0)
		pthread_cancel(pthread_self());
}

/* ---- verbs ---- */

void end_open(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = 64,
						.max_recv_wr = 64,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	CHECK(list && list[0]);
	CHECK((e->ctx = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK((e->buf = calloc(1, BUF)));
	CHECK((e->pd = ibv_alloc_pd(e->ctx)));
	CHECK((e->channel = ibv_create_comp_channel(e->ctx)));
	CHECK((e->cq = ibv_create_cq(e->ctx, 256, NULL, e->channel, 0)));
	CHECK((e->mr = ibv_reg_mr(e->pd, e->buf, BUF,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					  IBV_ACCESS_REMOTE_READ)));
	CHECK(!ibv_query_gid(e->ctx, 1, 0, &e->gid));
	init.send_cq = init.recv_cq = e->cq;
	CHECK((e->qp = ibv_create_qp(e->pd, &init)));
	CHECK(!ibv_modify_qp(e->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

void end_connect(struct end *from, const struct end *to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = to->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = to->gid, .hop_limit = 64}},
	};

	CHECK(!ibv_modify_qp(from->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	CHECK(!ibv_modify_qp(from->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

void end_close(struct end *e)
{
	CHECK(!ibv_destroy_qp(e->qp));
	CHECK(!ibv_dereg_mr(e->mr));
	CHECK(!ibv_destroy_cq(e->cq));
	CHECK(!ibv_destroy_comp_channel(e->channel));
	CHECK(!ibv_dealloc_pd(e->pd));
	CHECK(!ibv_close_device(e->ctx));
	free(e->buf);
}

int end_post(struct end *e, const struct end *to, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = len, .lkey = e->mr->lkey};
	struct ibv_send_wr *bad,
		wr = {
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = {.remote_addr = (uintptr_t)to->buf, .rkey = to->mr->rkey},
		};

	return ibv_post_send(e->qp, &wr, &bad);
}

void end_wait(struct end *e)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(e->cq, 1, &wc)) == 0)
		;
	CHECK(n == 1);
	if (wc.status != IBV_WC_SUCCESS)
		printf("status %s\n", ibv_wc_status_str(wc.status));
	CHECK(wc.status == IBV_WC_SUCCESS);
}

/* ---- rdma_cm ---- */

#define BYE "bye" /* private data of a server's last client */

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	CHECK(!rdma_create_qp(id, NULL, &init));
}

static void drop_id(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

static void *serve(void *arg)
{
	struct rdma_conn_param param = {.responder_resources = 1, .rnr_retry_count = 7};
	struct server *s = arg;
	struct rdma_cm_id *id, *last = NULL;
	enum rdma_cm_event_type what;
	struct rdma_cm_event *ev;

	do {
		bool bye;

		CHECK(!rdma_get_cm_event(s->channel, &ev));
		what = ev->event;
		id = ev->id;
		bye = what == RDMA_CM_EVENT_CONNECT_REQUEST && ev->param.conn.private_data &&
		      !strcmp(ev->param.conn.private_data, BYE);
		CHECK(!rdma_ack_cm_event(ev));
		if (bye)
			last = id;
		if (what == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			CHECK(!rdma_accept(id, &param));
		} else if (what == RDMA_CM_EVENT_ESTABLISHED) {
			s->served++;
			CHECK(!rdma_disconnect(id));
		} else {
			/* DISCONNECTED, or a client that was cancelled before it was one */
			drop_id(id);
		}
	} while (what != RDMA_CM_EVENT_DISCONNECTED || id != last);
	rdma_destroy_id(s->listener);
	rdma_destroy_event_channel(s->channel);
	return NULL;
}

void server_start(struct server *s)
{
	memset(s, 0, sizeof(*s));
	s->at = (struct sockaddr_in){.sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK((s->channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(s->channel, &s->listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(s->listener, (struct sockaddr *)&s->at));
	CHECK(!rdma_listen(s->listener, 64));
	s->at.sin_port = rdma_get_src_port(s->listener);
	CHECK(!pthread_create(&s->thread, NULL, serve, s));
}

static void expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	CHECK(!rdma_get_cm_event(channel, &ev));
	if (ev->event != type)
		printf("event %s, not %s\n", rdma_event_str(ev->event), rdma_event_str(type));
	CHECK(ev->event == type);
	CHECK(!rdma_ack_cm_event(ev));
}

static void use(const struct server *s, const char *text)
{
	struct rdma_conn_param param = {.responder_resources = 1,
					.retry_count = 7,
					.private_data = text,
					.private_data_len = (uint8_t)(strlen(text) + 1)};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in at = s->at;
	struct rdma_cm_id *id;

	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 10000));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 10000));
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(id);
	CHECK(!rdma_connect(id, &param));
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED);
	expect_event(channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(id) || errno == EINVAL);
	drop_id(id);
	rdma_destroy_event_channel(channel);
}

void server_use(const struct server *s)
{
	use(s, "");
}

void server_stop(struct server *s)
{
	use(s, BYE);
	CHECK(!pthread_join(s->thread, NULL));
}

void wait_for(pid_t child)
{
	int status;

	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	if (status)
		printf("child: status %#x\n", (unsigned)status);
	CHECK(status == 0);
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "", *what = argc > 2 ? argv[2] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(part, "stack") == 0)
		return run_stack();
	if (strcmp(part, "cancel") == 0)
		return run_cancel(what);
	if (strcmp(part, "fork") == 0)
		return run_fork(what);
	if (strcmp(part, "exit") == 0)
		return run_exit(what);
	if (strcmp(part, "words") == 0)
		return run_words();
	if (strcmp(part, "storm") == 0)
		return run_storm();
	if (strcmp(part, "closed") == 0)
		run_closed();
	fprintf(stderr, "usage: habits stack|cancel|fork|exit|words|storm|closed [WHAT]\n");
	return 2;
}
