/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conform-peer: gives a tester the queue pairs, memory, completions and events of an RDMA device
 * ("rocemu conform" is such a tester). It needs libibverbs only:
 *
 *	cc conform-peer.c -o conform-peer -libverbs
 *	conform-peer [-d DEVICE] [-g GID_INDEX] [-p PORT] [-b BIND_ADDRESS] [--once]
 *
 * Without -d the first device is used. Without -g it is the RoCEv2 GID of the address to which the
 * tester connected. Each TCP connection is a tester, and has a process of its own; its objects end
 * with it. There is no password: who reaches the port may use the device, but of memory only the
 * three areas below. -b limits who reaches it. --once: end after the first connection.
 *
 * The protocol is lines of text. The tester sends a command, "NAME PARAMETER=VALUE ...", and gets
 * one line: "ok ..." or "error ERRNO TEXT". Numbers are decimal, or hexadecimal with 0x. Flags,
 * access rights, types of windows, statuses, opcodes and flags of completions, and events have the
 * numbers of <infiniband/verbs.h>; immediate data is in host order.
 *
 * There are three areas of 128 KiB: mem (byte i is 13 i + 5; all rights of remote access), send
 * (7 i + i / 256; local rights) and recv (0xee; local rights). A PIECE is AREA+OFFSET:LENGTH or
 * AREA+OFFSET:LENGTH:LKEY, in an area; several are joined by commas.
 *
 *	hello	-> ok version=1 device=.. vendor=.. part=.. firmware=.. gid_index=.. gid=(32 hex
 *		digits) mtu=(active, bytes) rd_atomic=.. atomic=(0: none) window2=(0 or 1) area=..
 *	qp type=(RC UC UD) [send_wr= recv_wr= sge= inline= cqe= sig_all=]
 *		a queue pair in RESET; only one in a connection, until "destroy"
 *		-> ok qpn=.. send_wr=.. recv_wr=.. sge=.. inline=..
 *		   mem=ADDRESS,LKEY,RKEY send=.. recv=..
 *	modify state=(RESET INIT RTR RTS SQD SQE ERR) [ATTRIBUTE=..]
 *		with exactly these attributes: port pkey_index qkey access path_mtu (bytes)
 *		dest_qpn rq_psn dest_rd_atomic rnr_timer gid (of the tester) sq_psn timeout retry
 *		rnr_retry rd_atomic sqd_notify. UD: gid is where datagrams go
 *	send op=(SEND SEND_WITH_IMM SEND_WITH_INV RDMA_WRITE RDMA_WRITE_WITH_IMM RDMA_READ
 *		ATOMIC_CMP_AND_SWP ATOMIC_FETCH_AND_ADD LOCAL_INV BIND_MW ATOMIC_WRITE)
 *		[id= flags= imm= inv= raddr= rkey= compare= swap= add= qpn= qkey= sge=PIECES]
 *		BIND_MW: the piece is what the window covers (none: it names no region), access=
 *		its rights, rkey= its new key. -> ok [mw_rkey=(key of the window, if there is one)]
 *	recv [id= sge=PIECES]
 *	look	what happened since the last look -> ok state=.., then for each completion
 *		"; completion queue=(send recv) id= status= opcode= len= flags= imm= src_qp= qpn=
 *		vendor_err= inv= sl=" (those from len to inv are of success only), then for each
 *		event "; event code=.."
 *	probe qpn= gid=
 *		a second queue pair, of RC, in RTS, connected to that of the tester; both begin at
 *		PSN 0, and READs of no bytes are answered: behind such an answer the device has
 *		looked at what was sent before -> ok qpn=..
 *	destroy	the queue pair
 *	reg area= access= [other_pd=1]	once more, with new keys -> ok lkey=.. rkey=..
 *	dereg area=	what was registered last
 *	mw type=(1 2; 0: free it) [other_pd=1]	-> ok rkey=..
 *	read area= offset= len=(up to 16384)	-> ok (hexadecimal bytes)
 *	write area= offset= hex=(up to 16384 bytes)
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum {
	IB_PORT = 1,
	AREAS = 3,
	AREA = 128 << 10,
	GUARD = 64 << 10, /* in front of an area and behind it, without any access */
	COPY_MAX = 16 << 10,
	LINE = 2 * COPY_MAX + 256,
	ANSWER = 2 * COPY_MAX + 1024,
	SGES = 8,
	MRS = 32,
	PARAMETERS = 24, /* of a line */
	RIGHTS_MAX = 0x3ff,
	TESTERS = 32, /* at the same time */
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const area_names[] = {"mem", "send", "recv"};
static const char *const type_names[] = {
	[IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD"};
static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
static const char *const op_names[16] = {
	[IBV_WR_RDMA_WRITE] = "RDMA_WRITE",
	[IBV_WR_RDMA_WRITE_WITH_IMM] = "RDMA_WRITE_WITH_IMM",
	[IBV_WR_SEND] = "SEND",
	[IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
	[IBV_WR_RDMA_READ] = "RDMA_READ",
	[IBV_WR_ATOMIC_CMP_AND_SWP] = "ATOMIC_CMP_AND_SWP",
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = "ATOMIC_FETCH_AND_ADD",
	[IBV_WR_LOCAL_INV] = "LOCAL_INV",
	[IBV_WR_BIND_MW] = "BIND_MW",
	[IBV_WR_SEND_WITH_INV] = "SEND_WITH_INV",
	[15] = "ATOMIC_WRITE", /* older versions of verbs.h have no name for it */
};

struct options {
	const char *device, *bind, *port;
	int gid_index; /* negative: by the tester's address */
	bool once;
};

struct piece {
	unsigned area;
	struct ibv_sge sge;
};

struct parameter {
	const char *name;
	char *value;
	bool taken;
};

/** What a tester has. */
struct end {
	int sock;
	struct ibv_context *ctx;
	int gid_index;
	union ibv_gid gid;
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *cq[2]; /* of sends, of receives */
	struct ibv_qp *qp, *probe;
	struct ibv_ah *ah;
	struct ibv_mw *mw;
	struct ibv_mr *mr[MRS]; /* all that there are, or NULL */
	struct ibv_mr *area_mr[AREAS];
	uint8_t *area[AREAS];
	struct parameter parameter[PARAMETERS]; /* of the present line */
	unsigned parameters;
	bool wrong; /* one of them is; the answer is an error */
	size_t got; /* bytes in line[] */
	char line[LINE];
	size_t len; /* of answer[] */
	char answer[ANSWER];
};

/* ---- answers ---- */

__attribute__((format(printf, 2, 3))) static void say(struct end *e, const char *fmt, ...)
{
	const size_t room = ANSWER - e->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(e->answer + e->len, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		e->len += (size_t)n < room ? (size_t)n : room - 1;
}

/** The answer is an error. @return false. */
static bool fail(struct end *e, int error, const char *what, const char *text)
{
	e->len = 0;
	say(e, "error %d %.60s: %s", error, what, text);
	return false;
}

/** Of a call that failed: not each driver sets errno. */
static int last_error(void)
{
	return errno ? errno : EIO;
}

/** Of a call of verbs that returns 0 or an errno. @return true: the answer is "ok" so far. */
static bool called(struct end *e, const char *call, int error)
{
	if (error)
		return fail(e, error, call, strerror(error));
	e->len = 0;
	say(e, "ok");
	return true;
}

/* ---- parameters ---- */

static void fail_value(struct end *e, const char *name)
{
	if (!e->wrong)
		fail(e, EINVAL, name, "it is missing, or has no such value");
	e->wrong = true;
}

/** The text of a parameter; NULL: it is not given. */
static char *take_text(struct end *e, const char *name)
{
	for (unsigned i = 0; i < e->parameters; i++) {
		if (strcmp(e->parameter[i].name, name) == 0) {
			e->parameter[i].taken = true;
			return e->parameter[i].value;
		}
	}
	return NULL;
}

static bool read_number(const char *s, uint64_t max, uint64_t *to)
{
	char *end;

	errno = 0;
	*to = strtoull(s, &end, 0);
	return *s >= '0' && *s <= '9' && !errno && !*end && *to <= max;
}

/** A number up to max; 0: it is not given. */
static uint64_t take(struct end *e, const char *name, uint64_t max)
{
	const char *s = take_text(e, name);
	uint64_t n = 0;

	if (s && !read_number(s, max, &n))
		fail_value(e, name);
	return n;
}

static uint32_t take32(struct end *e, const char *name)
{
	return (uint32_t)take(e, name, UINT32_MAX);
}

static unsigned index_of(const char *s, const char *const *words, unsigned n)
{
	unsigned i = 0;

	while (s && i < n && (!words[i] || strcmp(words[i], s)))
		i++;
	return s ? i : n;
}

/** The index of a word, which must be given. */
static unsigned take_word(struct end *e, const char *name, const char *const *words, unsigned n)
{
	const unsigned i = index_of(take_text(e, name), words, n);

	if (i < n)
		return i;
	fail_value(e, name);
	return 0;
}

/** All parameters were taken. @return false: one is wrong or unknown; the answer is an error. */
static bool taken(struct end *e)
{
	for (unsigned i = 0; i < e->parameters && !e->wrong; i++)
		if (!e->parameter[i].taken)
			e->wrong = !fail(e, EINVAL, e->parameter[i].name, "no such parameter");
	return !e->wrong;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/** Bytes in hexadecimal. @return how many, at most max. */
static unsigned take_hex(struct end *e, const char *name, uint8_t *to, unsigned max)
{
	const char *s = take_text(e, name);
	unsigned n = 0;

	for (; s && *s; s += 2, n++) {
		const int high = hex_digit(s[0]), low = high < 0 ? -1 : hex_digit(s[1]);

		if (low < 0 || n == max) {
			fail_value(e, name);
			return 0;
		}
		to[n] = (uint8_t)(high << 4 | low);
	}
	return n;
}

static bool in_area(uint64_t offset, uint64_t len)
{
	return offset <= AREA && len <= AREA - offset;
}

/** AREA+OFFSET:LENGTH[:LKEY] */
static bool read_piece(const struct end *e, char *s, struct piece *to)
{
	char *plus = strchr(s, '+'), *len = strchr(s, ':');
	char *key = len ? strchr(len + 1, ':') : NULL;
	uint64_t offset, n, lkey = 0;

	if (!plus || !len || plus > len)
		return false;
	*plus = *len = 0;
	if (key)
		*key = 0;
	to->area = index_of(s, area_names, AREAS);
	if (to->area == AREAS || !read_number(plus + 1, AREA, &offset) ||
	    !read_number(len + 1, AREA, &n) || !in_area(offset, n))
		return false;
	if (e->area_mr[to->area])
		lkey = e->area_mr[to->area]->lkey;
	if (key && !read_number(key + 1, UINT32_MAX, &lkey))
		return false;
	to->sge = (struct ibv_sge){(uintptr_t)e->area[to->area] + offset, (uint32_t)n,
				   (uint32_t)lkey};
	return true;
}

/** @return how many. *first: the first of them. */
static int take_pieces(struct end *e, struct ibv_sge to[SGES], struct piece *first)
{
	char *save = NULL, *text = take_text(e, "sge");
	struct piece piece;
	int n = 0;

	text = text ? strtok_r(text, ",", &save) : NULL;
	for (; text; text = strtok_r(NULL, ",", &save)) {
		if (n == SGES || !read_piece(e, text, &piece)) {
			fail_value(e, "sge");
			return 0;
		}
		if (!n)
			*first = piece;
		to[n++] = piece.sge;
	}
	return n;
}

/* ---- memory ---- */

static bool map_areas(struct end *e)
{
	for (unsigned a = 0; a < AREAS; a++) {
		uint8_t *at =
			mmap(NULL, AREA + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED || mprotect(at + GUARD, AREA, PROT_READ | PROT_WRITE))
			return false;
		at = e->area[a] = at + GUARD;
		for (unsigned i = 0; i < AREA; i++)
			at[i] = (uint8_t)(a == 0 ? 13 * i + 5 : a == 1 ? 7 * i + (i >> 8) : 0xee);
	}
	return true;
}

static struct ibv_pd *take_pd(struct end *e)
{
	if (!take(e, "other_pd", 1))
		return e->pd;
	if (!e->other_pd)
		e->other_pd = ibv_alloc_pd(e->ctx);
	return e->other_pd;
}

/** @return 0 or an errno. */
static int register_area(struct end *e, struct ibv_pd *pd, unsigned area, unsigned access)
{
	unsigned i = 0;

	while (i < MRS && e->mr[i])
		i++;
	if (i == MRS)
		return ENOSPC;
	e->mr[i] = pd ? ibv_reg_mr(pd, e->area[area], AREA, access) : NULL;
	if (!e->mr[i])
		return last_error();
	e->area_mr[area] = e->mr[i];
	return 0;
}

static void cmd_reg(struct end *e)
{
	const unsigned area = take_word(e, "area", area_names, AREAS);
	const unsigned access = (unsigned)take(e, "access", RIGHTS_MAX);
	struct ibv_pd *pd = take_pd(e);

	if (taken(e) && called(e, "ibv_reg_mr", register_area(e, pd, area, access)))
		say(e, " lkey=0x%x rkey=0x%x", e->area_mr[area]->lkey, e->area_mr[area]->rkey);
}

static void cmd_dereg(struct end *e)
{
	const unsigned area = take_word(e, "area", area_names, AREAS);
	struct ibv_mr *mr = e->area_mr[area];

	if (!taken(e) || !called(e, "ibv_dereg_mr", mr ? ibv_dereg_mr(mr) : EINVAL))
		return;
	for (unsigned i = 0; i < MRS; i++)
		if (e->mr[i] == mr)
			e->mr[i] = NULL;
	e->area_mr[area] = NULL;
}

static void cmd_mw(struct end *e)
{
	const unsigned type = (unsigned)take(e, "type", 2);
	struct ibv_pd *pd = take_pd(e);

	if (!taken(e) || !called(e, "ibv_dealloc_mw", e->mw ? ibv_dealloc_mw(e->mw) : 0))
		return;
	e->mw = NULL;
	if (!type)
		return;
	errno = EOPNOTSUPP;
	e->mw = pd ? ibv_alloc_mw(pd, (enum ibv_mw_type)type) : NULL;
	if (e->mw)
		say(e, " rkey=0x%x", e->mw->rkey);
	else
		called(e, "ibv_alloc_mw", last_error());
}

static void cmd_read(struct end *e)
{
	const unsigned area = take_word(e, "area", area_names, AREAS);
	const uint64_t offset = take(e, "offset", AREA), len = take(e, "len", COPY_MAX);

	if (!in_area(offset, len))
		fail_value(e, "len");
	if (!taken(e))
		return;
	say(e, "ok ");
	for (uint64_t i = 0; i < len; i++)
		say(e, "%02x", e->area[area][offset + i]);
}

static void cmd_write(struct end *e)
{
	static uint8_t bytes[COPY_MAX];
	const unsigned area = take_word(e, "area", area_names, AREAS);
	const uint64_t offset = take(e, "offset", AREA);
	const unsigned len = take_hex(e, "hex", bytes, COPY_MAX);

	if (!in_area(offset, len))
		fail_value(e, "hex");
	if (!taken(e))
		return;
	memcpy(e->area[area] + offset, bytes, len);
	say(e, "ok");
}

/* ---- queue pairs ---- */

/** @return 0, or an errno: then some of them are left. */
static int end_queues(struct end *e)
{
	int error = e->qp ? ibv_destroy_qp(e->qp) : 0;

	if (!error)
		e->qp = NULL;
	if (!error && e->probe)
		error = ibv_destroy_qp(e->probe);
	if (!error)
		e->probe = NULL;
	if (!error && e->ah)
		error = ibv_destroy_ah(e->ah);
	if (!error)
		e->ah = NULL;
	for (unsigned i = 0; i < 2 && !error; i++) {
		error = e->cq[i] ? ibv_destroy_cq(e->cq[i]) : 0;
		if (!error)
			e->cq[i] = NULL;
	}
	return error;
}

/** The completions of a destroyed queue pair can still be looked at. */
static void cmd_destroy(struct end *e)
{
	if (taken(e) && called(e, "ibv_destroy_qp", ibv_destroy_qp(e->qp)))
		e->qp = NULL;
}

static bool make_queues(struct end *e, struct ibv_qp_init_attr *a, int cqe)
{
	for (unsigned i = 0; i < 2; i++) {
		e->cq[i] = ibv_create_cq(e->ctx, cqe, NULL, NULL, 0);
		if (!e->cq[i])
			return called(e, "ibv_create_cq", last_error());
	}
	a->send_cq = e->cq[0];
	a->recv_cq = e->cq[1];
	e->qp = ibv_create_qp(e->pd, a);
	return called(e, "ibv_create_qp", e->qp ? 0 : last_error());
}

static void cmd_qp(struct end *e)
{
	const int cqe = (int)take(e, "cqe", 65536);
	struct ibv_qp_init_attr a = {
		.qp_type = (enum ibv_qp_type)take_word(e, "type", type_names, COUNT(type_names)),
		.sq_sig_all = (int)take(e, "sig_all", 1),
		.cap = {.max_send_wr = (uint32_t)take(e, "send_wr", 4096),
			.max_recv_wr = (uint32_t)take(e, "recv_wr", 4096),
			.max_send_sge = (uint32_t)take(e, "sge", SGES),
			.max_inline_data = (uint32_t)take(e, "inline", 1024)},
	};

	a.cap.max_recv_sge = a.cap.max_send_sge;
	if (e->qp)
		fail_value(e, "qp (there is one: destroy it first)");
	if (!taken(e) || !called(e, "ending the last queue pair", end_queues(e)) ||
	    !make_queues(e, &a, cqe ? cqe : 1024))
		return;
	say(e, " qpn=0x%x send_wr=%u recv_wr=%u sge=%u inline=%u", e->qp->qp_num, a.cap.max_send_wr,
	    a.cap.max_recv_wr, a.cap.max_send_sge, a.cap.max_inline_data);
	for (unsigned i = 0; i < AREAS; i++)
		say(e, " %s=0x%llx,0x%x,0x%x", area_names[i],
		    (unsigned long long)(uintptr_t)e->area[i],
		    e->area_mr[i] ? e->area_mr[i]->lkey : 0,
		    e->area_mr[i] ? e->area_mr[i]->rkey : 0);
}

/* X(parameter, member of struct ibv_qp_attr, largest value, bit) */
#define ATTRIBUTES(X)                                                         \
	X(port, port_num, 255, IBV_QP_PORT)                                   \
	X(pkey_index, pkey_index, 0xffff, IBV_QP_PKEY_INDEX)                  \
	X(qkey, qkey, UINT32_MAX, IBV_QP_QKEY)                                \
	X(access, qp_access_flags, RIGHTS_MAX, IBV_QP_ACCESS_FLAGS)           \
	X(path_mtu, path_mtu, 4096, IBV_QP_PATH_MTU)                          \
	X(dest_qpn, dest_qp_num, 0xffffff, IBV_QP_DEST_QPN)                   \
	X(rq_psn, rq_psn, 0xffffff, IBV_QP_RQ_PSN)                            \
	X(dest_rd_atomic, max_dest_rd_atomic, 255, IBV_QP_MAX_DEST_RD_ATOMIC) \
	X(rnr_timer, min_rnr_timer, 31, IBV_QP_MIN_RNR_TIMER)                 \
	X(sq_psn, sq_psn, 0xffffff, IBV_QP_SQ_PSN)                            \
	X(timeout, timeout, 31, IBV_QP_TIMEOUT)                               \
	X(retry, retry_cnt, 7, IBV_QP_RETRY_CNT)                              \
	X(rnr_retry, rnr_retry, 7, IBV_QP_RNR_RETRY)                          \
	X(rd_atomic, max_rd_atomic, 255, IBV_QP_MAX_QP_RD_ATOMIC)             \
	X(sqd_notify, en_sqd_async_notify, 1, IBV_QP_EN_SQD_ASYNC_NOTIFY)

/** @return the attributes that are given, as a mask. */
static int take_attributes(struct end *e, struct ibv_qp_attr *a)
{
	int mask = 0;

#define X(name, member, max, bit)                                       \
	if (take_text(e, #name)) {                                      \
		a->member = (__typeof__(a->member))take(e, #name, max); \
		mask |= bit;                                            \
	}
	ATTRIBUTES(X)
#undef X
	return mask;
}

/** The code of a size in bytes. */
static enum ibv_mtu mtu_code(struct end *e, unsigned bytes)
{
	for (unsigned m = IBV_MTU_256; m <= IBV_MTU_4096; m++)
		if (bytes == 128u << m)
			return (enum ibv_mtu)m;
	fail_value(e, "path_mtu");
	return IBV_MTU_256;
}

/** The way to the tester, without its address. */
static struct ibv_ah_attr path(const struct end *e)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = IB_PORT,
		.grh = {.sgid_index = (uint8_t)e->gid_index, .hop_limit = 64},
	};
}

static void cmd_modify(struct end *e)
{
	struct ibv_qp_attr a = {.ah_attr = path(e)};
	int mask = IBV_QP_STATE | take_attributes(e, &a);
	const unsigned gid = take_hex(e, "gid", a.ah_attr.grh.dgid.raw, 16);

	a.qp_state = (enum ibv_qp_state)take_word(e, "state", state_names, COUNT(state_names));
	if (mask & IBV_QP_PATH_MTU)
		a.path_mtu = mtu_code(e, a.path_mtu);
	if (gid % 16)
		fail_value(e, "gid");
	if (!taken(e))
		return;
	if (gid && e->qp->qp_type != IBV_QPT_UD) {
		mask |= IBV_QP_AV;
	} else if (gid && !e->ah) {
		e->ah = ibv_create_ah(e->pd, &a.ah_attr);
		if (!called(e, "ibv_create_ah", e->ah ? 0 : last_error()))
			return;
	}
	called(e, "ibv_modify_qp", ibv_modify_qp(e->qp, &a, mask));
}

/** Of RESET. @return 0 or an errno. */
static int connect_probe(struct ibv_qp *qp, struct ibv_qp_attr *a)
{
	static const int mask[] = {
		IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC,
	};
	int error = 0;

	for (unsigned i = 0; i < COUNT(mask) && !error; i++) {
		a->qp_state = (enum ibv_qp_state)(IBV_QPS_INIT + i);
		error = ibv_modify_qp(qp, a, mask[i] | IBV_QP_STATE);
	}
	return error;
}

static void cmd_probe(struct end *e)
{
	struct ibv_qp_init_attr init = {.send_cq = e->cq[0],
					.recv_cq = e->cq[1],
					.cap = {1, 1, 1, 1, 0},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr a = {.ah_attr = path(e),
				.port_num = IB_PORT,
				.qp_access_flags = IBV_ACCESS_REMOTE_READ,
				.path_mtu = IBV_MTU_256,
				.dest_qp_num = (uint32_t)take(e, "qpn", 0xffffff),
				.max_dest_rd_atomic = 1,
				.max_rd_atomic = 1,
				.timeout = 14};

	if (take_hex(e, "gid", a.ah_attr.grh.dgid.raw, 16) != 16 || e->probe)
		fail_value(e, "gid, or there is a probe");
	if (!taken(e))
		return;
	e->probe = ibv_create_qp(e->pd, &init);
	if (called(e, "ibv_create_qp", e->probe ? 0 : last_error()) &&
	    called(e, "ibv_modify_qp", connect_probe(e->probe, &a)))
		say(e, " qpn=0x%x", e->probe->qp_num);
}

/* ---- requests ---- */

static void take_bind(struct end *e, const struct piece *piece, struct ibv_send_wr *wr)
{
	const uint32_t rkey = take32(e, "rkey");
	struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	info->mw_access_flags = (unsigned)take(e, "access", RIGHTS_MAX);
	if (!e->mw) {
		fail_value(e, "mw");
		return;
	}
	wr->bind_mw.mw = e->mw;
	wr->bind_mw.rkey = rkey ? rkey : ibv_inc_rkey(e->mw->rkey);
	if (wr->num_sge) {
		info->mr = e->area_mr[piece->area];
		info->addr = piece->sge.addr;
		info->length = piece->sge.length;
	}
	wr->num_sge = 0;
}

static void take_remote(struct end *e, struct ibv_send_wr *wr)
{
	const bool adds = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	if (e->qp->qp_type == IBV_QPT_UD) {
		wr->wr.ud.ah = e->ah;
		wr->wr.ud.remote_qpn = (uint32_t)take(e, "qpn", 0xffffff);
		wr->wr.ud.remote_qkey = take32(e, "qkey");
		if (!e->ah)
			fail_value(e, "gid of modify");
	} else if (adds || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr->wr.atomic.remote_addr = take(e, "raddr", UINT64_MAX);
		wr->wr.atomic.rkey = take32(e, "rkey");
		wr->wr.atomic.compare_add = take(e, adds ? "add" : "compare", UINT64_MAX);
		wr->wr.atomic.swap = adds ? 0 : take(e, "swap", UINT64_MAX);
	} else {
		wr->wr.rdma.remote_addr = take(e, "raddr", UINT64_MAX);
		wr->wr.rdma.rkey = take32(e, "rkey");
	}
}

static void cmd_send(struct end *e)
{
	struct ibv_sge sge[SGES];
	struct piece piece;
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = take(e, "id", UINT64_MAX),
			.opcode = (enum ibv_wr_opcode)take_word(e, "op", op_names, COUNT(op_names)),
			.send_flags = (unsigned)take(e, "flags", 0xf),
			.sg_list = sge,
			.num_sge = take_pieces(e, sge, &piece),
		};

	if (wr.opcode == IBV_WR_SEND_WITH_INV || wr.opcode == IBV_WR_LOCAL_INV)
		wr.invalidate_rkey = take32(e, "inv");
	else
		wr.imm_data = htobe32(take32(e, "imm"));
	if (wr.opcode == IBV_WR_BIND_MW)
		take_bind(e, &piece, &wr);
	else
		take_remote(e, &wr);
	if (!taken(e) || !called(e, "ibv_post_send", ibv_post_send(e->qp, &wr, &bad)))
		return;
	/* The key of a window is for the program to keep. */
	if (wr.opcode == IBV_WR_BIND_MW)
		e->mw->rkey = wr.bind_mw.rkey;
	if (e->mw)
		say(e, " mw_rkey=0x%x", e->mw->rkey);
}

static void cmd_recv(struct end *e)
{
	struct ibv_sge sge[SGES];
	struct piece first;
	struct ibv_recv_wr *bad, wr = {.wr_id = take(e, "id", UINT64_MAX),
				       .sg_list = sge,
				       .num_sge = take_pieces(e, sge, &first)};

	if (taken(e))
		called(e, "ibv_post_recv", ibv_post_recv(e->qp, &wr, &bad));
}

/* ---- completions and events ---- */

/** There is room for one more of them. */
static bool has_room(const struct end *e)
{
	return e->len + 512 < ANSWER;
}

static void say_completion(struct end *e, unsigned queue, const struct ibv_wc *wc)
{
	say(e, "; completion queue=%s id=%llu status=%u vendor_err=0x%x qpn=0x%x",
	    area_names[1 + queue], (unsigned long long)wc->wr_id, wc->status, wc->vendor_err,
	    wc->qp_num);
	if (wc->status != IBV_WC_SUCCESS)
		return;
	say(e, " opcode=%u len=%u flags=0x%x src_qp=0x%x sl=%u", wc->opcode, wc->byte_len,
	    wc->wc_flags, wc->src_qp, wc->sl);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		say(e, " imm=0x%x", be32toh(wc->imm_data));
	if (wc->wc_flags & IBV_WC_WITH_INV)
		say(e, " inv=0x%x", wc->invalidated_rkey);
}

static void say_completions(struct end *e)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < 2; i++)
		while (e->cq[i] && has_room(e) && ibv_poll_cq(e->cq[i], 1, &wc) == 1)
			say_completion(e, i, &wc);
}

/** Those of ports are of the host's network, and no effect of what a tester does. */
static void say_events(struct end *e)
{
	struct ibv_async_event event;

	while (has_room(e) && ibv_get_async_event(e->ctx, &event) == 0) {
		const unsigned code = event.event_type;

		ibv_ack_async_event(&event);
		if (code < IBV_EVENT_DEVICE_FATAL || code == IBV_EVENT_QP_LAST_WQE_REACHED)
			say(e, "; event code=%u", code);
	}
}

static void cmd_look(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	const bool there = e->qp && ibv_query_qp(e->qp, &a, IBV_QP_STATE, &init) == 0 &&
			   a.qp_state < COUNT(state_names);

	if (!taken(e))
		return;
	say(e, "ok state=%s", there ? state_names[a.qp_state] : "none");
	say_completions(e);
	say_events(e);
}

/* ---- a tester ---- */

static void cmd_hello(struct end *e)
{
	struct ibv_device_attr d;
	struct ibv_port_attr port;

	if (!taken(e) || !called(e, "ibv_query_device", ibv_query_device(e->ctx, &d)) ||
	    !called(e, "ibv_query_port", ibv_query_port(e->ctx, IB_PORT, &port)))
		return;
	say(e, " version=1 device=%s vendor=0x%x part=0x%x firmware=%.60s gid_index=%d gid=",
	    ibv_get_device_name(e->ctx->device), d.vendor_id, d.vendor_part_id,
	    d.fw_ver[0] ? d.fw_ver : "-", e->gid_index);
	for (unsigned i = 0; i < sizeof(e->gid.raw); i++)
		say(e, "%02x", e->gid.raw[i]);
	say(e, " mtu=%u rd_atomic=%d atomic=%d window2=%d area=%d", 128u << port.active_mtu,
	    d.max_qp_rd_atom, d.atomic_cap != IBV_ATOMIC_NONE,
	    !!(d.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B), AREA);
}

static const struct {
	const char *name;
	void (*does)(struct end *e);
	bool needs_qp;
} commands[] = {
	{"hello", cmd_hello, false}, {"qp", cmd_qp, false},	 {"modify", cmd_modify, true},
	{"send", cmd_send, true},    {"recv", cmd_recv, true},	 {"destroy", cmd_destroy, true},
	{"look", cmd_look, false},   {"probe", cmd_probe, true}, {"reg", cmd_reg, false},
	{"dereg", cmd_dereg, false}, {"mw", cmd_mw, false},	 {"read", cmd_read, false},
	{"write", cmd_write, false},
};

/** @return false: the answer is an error. */
static bool split(struct end *e, char *rest)
{
	char *save, *word = strtok_r(rest, " ", &save);

	for (e->parameters = 0; word; word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');

		if (!value || e->parameters == PARAMETERS)
			return fail(e, EINVAL, word, "NAME=VALUE is expected");
		*value++ = 0;
		e->parameter[e->parameters++] = (struct parameter){word, value, false};
	}
	return true;
}

static void carry_out(struct end *e, char *line)
{
	char *rest = line + strcspn(line, " ");
	size_t i = 0;

	e->len = 0;
	e->wrong = false;
	if (*rest)
		*rest++ = 0;
	while (i < COUNT(commands) && strcmp(commands[i].name, line))
		i++;
	if (i == COUNT(commands))
		fail(e, ENOSYS, line, "no such command");
	else if (commands[i].needs_qp && !e->qp)
		fail(e, EINVAL, line, "there is no queue pair");
	else if (split(e, rest))
		commands[i].does(e);
}

static bool send_answer(struct end *e)
{
	/* An error has bytes of the tester's line. */
	for (size_t i = 0; i < e->len; i++)
		if (e->answer[i] < ' ' || e->answer[i] > '~')
			e->answer[i] = '?';
	e->answer[e->len++] = '\n';
	for (size_t done = 0; done < e->len;) {
		const ssize_t n = send(e->sock, e->answer + done, e->len - done, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/** Lines, until the tester closes, or sends one that is too long. */
static void serve(struct end *e)
{
	for (;;) {
		char *end = memchr(e->line, '\n', e->got);
		ssize_t n;

		if (end) {
			*end++ = 0;
			e->line[strcspn(e->line, "\r")] = 0;
			carry_out(e, e->line);
			if (!send_answer(e))
				return;
			e->got -= (size_t)(end - e->line);
			memmove(e->line, end, e->got);
			continue;
		}
		n = e->got < LINE ? recv(e->sock, e->line + e->got, LINE - e->got, 0) : 0;
		if (n <= 0)
			return;
		e->got += (size_t)n;
	}
}

/* ---- the device ---- */

/** @return an open device, or NULL with an error printed. name: NULL, the first. */
static struct ibv_context *open_device(const char *name)
{
	int n = 0, i = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *ctx = NULL;

	while (i < n && name && strcmp(ibv_get_device_name(list[i]), name))
		i++;
	if (i < n)
		ctx = ibv_open_device(list[i]);
	if (!ctx)
		fprintf(stderr, "conform-peer: device %s: %s\n", name ? name : "",
			i < n ? strerror(errno)
			      : "there is none; ibv_devices lists those there are");
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

/** The address to which the tester connected, as a GID. */
static union ibv_gid local_gid(int sock)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} s = {0};
	socklen_t size = sizeof(s);

	getsockname(sock, &s.sa, &size);
	if (s.sa.sa_family == AF_INET)
		memcpy(gid.raw + 12, &s.in.sin_addr, 4);
	else
		memcpy(gid.raw, &s.in6.sin6_addr, 16);
	return gid;
}

static bool find_gid(struct end *e, int index)
{
	const union ibv_gid local = local_gid(e->sock);
	struct ibv_gid_entry entry;

	if (index >= 0) {
		e->gid_index = index;
		return ibv_query_gid(e->ctx, IB_PORT, index, &e->gid) == 0 ||
		       fail(e, EINVAL, "-g", "the device has no such GID");
	}
	for (int i = 0; i < 255; i++) {
		if (ibv_query_gid_ex(e->ctx, IB_PORT, (uint32_t)i, &entry, 0) == 0 &&
		    entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    memcmp(&entry.gid, &local, sizeof(local)) == 0) {
			e->gid_index = i;
			e->gid = local;
			return true;
		}
	}
	return fail(e, EADDRNOTAVAIL, "the address that the tester connected to",
		    "no RoCEv2 GID of the device; use another one, or conform-peer -g");
}

/** A device without atomics may refuse the right to them. */
static unsigned all_rights(const struct end *e)
{
	const unsigned rights =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_device_attr d;

	return ibv_query_device(e->ctx, &d) == 0 && d.atomic_cap != IBV_ATOMIC_NONE
		       ? rights | IBV_ACCESS_REMOTE_ATOMIC
		       : rights;
}

static bool prepare(struct end *e, const struct options *o)
{
	int error = 0;

	e->ctx = open_device(o->device);
	if (!e->ctx)
		return fail(e, ENODEV, "the device", "it cannot be opened");
	/* Reading an event must not wait for one. */
	fcntl(e->ctx->async_fd, F_SETFL, O_NONBLOCK);
	e->pd = ibv_alloc_pd(e->ctx);
	if (!e->pd || !map_areas(e))
		return called(e, "memory, or a protection domain", last_error());
	for (unsigned i = 0; i < AREAS && !error; i++)
		error = register_area(e, e->pd, i, i ? IBV_ACCESS_LOCAL_WRITE : all_rights(e));
	return error ? called(e, "ibv_reg_mr", error) : find_gid(e, o->gid_index);
}

static void finish(struct end *e)
{
	end_queues(e);
	if (e->mw)
		ibv_dealloc_mw(e->mw);
	for (unsigned i = 0; i < MRS; i++)
		if (e->mr[i])
			ibv_dereg_mr(e->mr[i]);
	if (e->other_pd)
		ibv_dealloc_pd(e->other_pd);
	if (e->pd)
		ibv_dealloc_pd(e->pd);
	if (e->ctx)
		ibv_close_device(e->ctx);
}

static void serve_tester(int sock, const struct options *o)
{
	static struct end e;
	const int one = 1, idle = 30;

	e.sock = sock;
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* A tester whose host is gone must not keep its objects. */
	setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(sock, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	if (prepare(&e, o))
		serve(&e);
	else
		send_answer(&e);
	finish(&e);
	close(sock);
}

/* ---- the program ---- */

static int bound(const struct addrinfo *a)
{
	const int one = 1, zero = 0;
	const int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (s < 0)
		return -1;
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->ai_family == AF_INET6)
		setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, 8) == 0)
		return s;
	close(s);
	return -1;
}

/** By IPv6, which takes IPv4 as well, unless the host has no IPv6. @return a socket, or -1. */
static int listen_at(const struct options *o)
{
	static const int family[] = {AF_INET6, AF_INET};
	int s = -1;

	for (unsigned i = 0; i < 2 && s < 0; i++) {
		const struct addrinfo hints = {.ai_family = family[i],
					       .ai_socktype = SOCK_STREAM,
					       .ai_flags = AI_PASSIVE | AI_NUMERICHOST |
							   (i ? 0 : AI_V4MAPPED)};
		struct addrinfo *a;

		errno = EINVAL;
		if (getaddrinfo(o->bind, o->port, &hints, &a))
			continue;
		s = bound(a);
		freeaddrinfo(a);
	}
	if (s < 0)
		fprintf(stderr, "conform-peer: address %s, port %s: %s\n",
			o->bind ? o->bind : "any", o->port, strerror(errno));
	return s;
}

/** A process for the tester. */
static bool start_tester(int sock, int listener, const struct options *o)
{
	const pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid > 0;
	close(listener);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent)
		serve_tester(sock, o);
	exit(0);
}

static int serve_all(int listener, const struct options *o)
{
	static const char busy[] = "error 16 conform-peer: too many testers\n";
	unsigned testers = 0;
	int sock;

	for (;;) {
		do {
			sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		} while (sock < 0 && (errno == EINTR || errno == ECONNABORTED));
		while (testers && waitpid(-1, NULL, WNOHANG) > 0)
			testers--;
		if (sock < 0) {
			perror("conform-peer: accept");
			return 1;
		}
		if (o->once) {
			serve_tester(sock, o);
			return 0;
		}
		if (testers < TESTERS && start_tester(sock, listener, o))
			testers++;
		else
			send(sock, busy, sizeof(busy) - 1, MSG_NOSIGNAL);
		close(sock);
	}
}

/**
 * It is kept: what a device lacks is reported now and not to the first tester, and an emulated
 * device answers the tester's first packets.
 */
static bool make_idle_qp(struct ibv_context *ctx)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = pd ? ibv_create_cq(ctx, 1, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	if (cq && ibv_create_qp(pd, &a))
		return true;
	perror("conform-peer: a queue pair of the device");
	return false;
}

static bool read_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {{"once", no_argument, NULL, 'o'}, {0}};
	uint64_t n;
	int c;

	while ((c = getopt_long(argc, argv, "d:g:p:b:", longs, NULL)) >= 0) {
		if (c == 'd')
			o->device = optarg;
		else if (c == 'b')
			o->bind = optarg;
		else if (c == 'p' && read_number(optarg, UINT16_MAX, &n))
			o->port = optarg;
		else if (c == 'g' && read_number(optarg, 254, &n))
			o->gid_index = (int)n;
		else if (c == 'o')
			o->once = true;
		else
			return false;
	}
	return optind == argc;
}

/** @return the device, with all that the options need; or NULL with an error printed. */
static struct ibv_context *find_device(const struct options *o)
{
	struct ibv_context *ctx = open_device(o->device);
	union ibv_gid gid;

	if (!ctx || !make_idle_qp(ctx))
		return NULL;
	if (o->gid_index < 0 || ibv_query_gid(ctx, IB_PORT, o->gid_index, &gid) == 0)
		return ctx;
	fprintf(stderr, "conform-peer: -g %d: the device has no such GID\n", o->gid_index);
	return NULL;
}

int main(int argc, char **argv)
{
	struct options o = {.gid_index = -1, .port = "18520"};
	struct ibv_context *ctx;
	int listener;

	if (!read_options(argc, argv, &o)) {
		fputs("usage: conform-peer [-d DEVICE] [-g GID_INDEX] [-p PORT] [-b BIND_ADDRESS] "
		      "[--once]\n",
		      stderr);
		return 2;
	}
	ctx = find_device(&o);
	listener = ctx ? listen_at(&o) : -1;
	if (listener < 0)
		return 1;
	printf("conform-peer: device %s, TCP port %s\n", ibv_get_device_name(ctx->device), o.port);
	fflush(stdout);
	return serve_all(listener, &o);
}
