/* SPDX-License-Identifier: BSD-2-Clause */
/* Dispatches packets to the rules, and keeps the findings. */
#include "verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "model.h"
#include "capture/burst.h"
#include "wire/text.h"

enum {
	LOOK_AHEAD = 4096,	     /* frames with packets that are looked at in advance, ... */
	LOOK_AHEAD_FRAMES = 1 << 17, /* ... among so many */
};

#define IDLE_EVERY_NS 500000000u

struct verify *verify_new(unsigned keep, unsigned packets)
{
	struct verify *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return NULL;
	if (getentropy(v->prf.key, sizeof(v->prf.key)) < 0)
		v->prf.key[0] = monotonic_ns();
	v->show = v->keep = keep;
	v->last_exchange = &v->first_exchange;
	v->flows_tail = &v->flows;
	v->idle_tail = &v->idle;
	v->flow_most = MAX_FLOWS;
	if (packets != 0)
		v->log = packet_log_new(packets);
	if (packets != 0 && v->log == NULL) {
		verify_free(v);
		return NULL;
	}
	return v;
}

uint64_t hosts_digest(const struct verify *v, const struct rocemu_gid *src,
		      const struct rocemu_gid *dst, uint64_t number)
{
	uint64_t words[5] = {0};

	memcpy(words, src, sizeof(*src));
	if (dst != NULL)
		memcpy(words + 2, dst, sizeof(*dst));
	words[4] = number;
	return prf_hash(&v->prf, words, ARRAY_LEN(words));
}

void verify_free(struct verify *v)
{
	if (v == NULL)
		return;
	while (v->flows != NULL) {
		struct flow *f = v->flows;

		v->flows = f->all_next;
		flow_free(f);
	}
	hash_fini(&v->flow_table);
	hash_for_all (h, struct hosts, node, &v->hosts_table)
		free(h);
	hash_fini(&v->hosts_table);
	exchange_free(v);
	ud_free(v);
	packet_log_free(v->log);
	free(v->findings.kept);
	free(v->views);
	free(v);
}

static struct finding *findings_add(struct verify *v, struct findings *fs)
{
	if (fs->n == fs->room) {
		uint32_t room = fs->room != 0 ? fs->room * 2 : 4;
		struct finding *bigger = realloc(fs->kept, room * sizeof(*bigger));

		if (bigger == NULL) {
			v->out_of_memory = true;
			return NULL;
		}
		fs->kept = bigger;
		fs->room = room;
	}
	return &fs->kept[fs->n++];
}

void found_at(struct verify *v, struct flow *f, enum rule_id rule, uint64_t number, uint64_t ts_ns,
	      const char *fmt, ...)
{
	struct findings *fs = f != NULL ? &f->findings : &v->findings;
	struct finding *n, now;
	va_list ap;

	if (v->ignored[rule]) {
		v->by_ignored[rule]++;
		return;
	}
	v->by_severity[rules[rule].severity]++;
	v->by_rule[rule]++;
	if (fs->count[rule]++ >= v->keep)
		return;
	n = v->follow != NULL ? &now : findings_add(v, fs);
	if (n == NULL)
		return;
	n->rule = rule;
	n->number = number;
	n->ts_ns = ts_ns;
	n->beyond = fs->count[rule] > v->show;
	va_start(ap, fmt);
	vsnprintf(n->text, sizeof(n->text), fmt, ap);
	va_end(ap);
	if (v->follow != NULL)
		follow_print(v, f, n, false);
}

const char *packet_name(uint64_t number)
{
	static char names[4][32];
	static unsigned next;
	char *name = names[next++ % 4];
	unsigned segment = number & SEGMENT_MASK;

	if (segment != 0)
		snprintf(name, sizeof(names[0]), "%" PRIu64 ".%u", number >> SEGMENT_BITS, segment);
	else
		snprintf(name, sizeof(names[0]), "%" PRIu64, number >> SEGMENT_BITS);
	return name;
}

static void count(struct flow *f, const struct pkt *p)
{
	const struct capture_rec *rec = p->rec;

	if (f->packets++ == 0) {
		f->first_ns = rec->ts_ns;
		f->first_number = p->number;
		f->sport = rec->ip.sport;
	}
	f->last_ns = rec->ts_ns;
	f->wire_bytes += rec->wire_len;
	f->cut = f->cut || p->cut;
}

static void check_packet(struct verify *v, struct flow *f, const struct pkt *p)
{
	uint64_t bytes = f->rq.bytes;

	tentative_tick(v, f);
	form_check_flow(v, f, p);
	multicast_check(v, f, p);
	if (p->ops & ROCEMU_OP_CNP) {
		f->cnps++;
		FOUND(v, f, CNP, p, "to QP 0x%x", f->dqpn);
	} else if (f->svc == ROCEMU_SVC_UD) {
		ud_input(v, f, p);
	} else if (p->ops & ROCEMU_OP_RESPONSE) {
		response_input(v, f, p);
	} else {
		request_input(v, f, p);
	}
	if (f->rq.bytes > bytes)
		rate_add(&f->rate, p->rec->ts_ns, f->rq.bytes - bytes);
}

/* One packet: a frame's, or the segment-th of its. */
static void take(void *arg, const struct capture_rec *rec, unsigned segment, bool icrc_wrong)
{
	struct verify *v = arg;
	struct pkt p = {
		.rec = rec,
		.number = packet_number(rec->number, segment),
		.icrc_wrong = icrc_wrong,
	};
	struct flow *f = NULL;
	bool good;

	if (view_again(v, rec)) {
		v->seen_elsewhere++;
		return;
	}
	if (rec->fragment_at != 0) {
		form_check_fragment(v, &p);
		return;
	}
	if (v->packets++ == 0)
		v->first_ns = rec->ts_ns;
	v->last_ns = rec->ts_ns;
	v->bytes += rec->wire_len;
	v->by_encap[rec->encap]++;
	v->roce_v1 += rec->v1;
	v->bursts += segment == 1;
	good = form_check(v, &p, rec);
	if (good) {
		f = flow_get(v, &rec->ip, rocemu_opcode_service(p.p.h.opcode), p.p.h.dqpn);
		if (f == NULL && v->by_rule[RULE_TOO_MANY] == 0)
			FOUND(v, NULL, TOO_MANY, &p, "%zu", v->flow_table.n);
	}
	if (f != NULL) {
		count(f, &p);
		check_packet(v, f, &p);
	}
	if (v->log != NULL)
		packet_log_add(v, &p, f, good);
}

void verify_input(struct verify *v, const struct capture_rec *rec)
{
	burst_each(rec, take, v);
}

void verify_finish(struct verify *v)
{
	uint64_t ce = 0;
	struct flow *cnp = NULL;

	for (struct flow *f = v->flows; f != NULL; f = f->all_next) {
		if (f->packets == 0 && (f->peer == NULL || f->peer->packets == 0))
			continue;
		request_finish(v, f);
		ce += f->ce;
		if (f->cnps != 0 && cnp == NULL)
			cnp = f;
		f->second = f->peer != NULL && f->peer->index != 0;
		f->index = f->second ? f->peer->index : ++v->connections;
	}
	exchange_finish(v);
	if (cnp != NULL && ce == 0)
		found_unless(v, cnp, v->bth_cut != 0, RULE_CNP_NO_CE, 0, cnp->last_ns, "QP 0x%x",
			     cnp->dqpn);
}

uint64_t verify_errors(const struct verify *v)
{
	return v->by_severity[SEV_ERROR];
}

uint64_t verify_warnings(const struct verify *v)
{
	return v->by_severity[SEV_WARN];
}

uint64_t verify_notes(const struct verify *v)
{
	return v->by_severity[SEV_NOTE];
}

static void reader_set(const struct verify *v, struct capture_reader *r)
{
	if (v->ports.n != 0)
		capture_reader_ports(r, v->ports.port, v->ports.n);
	if (v->stop != NULL)
		capture_reader_stop_at(r, v->stop);
}

static void look_at(void *arg, const struct capture_rec *rec, unsigned segment, bool icrc_wrong)
{
	(void)segment;
	(void)icrc_wrong;
	if (rec->fragment_at == 0)
		view_note(arg, rec);
}

/* Are the packets of a file that can be read twice there several times each? */
static void look_ahead(struct verify *v, const char *path)
{
	struct capture_reader *r;
	struct capture_rec rec;
	struct stat st;
	char err[1];

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
	    capture_reader_open(&r, path, err, sizeof(err)) < 0)
		return;
	reader_set(v, r);
	capture_reader_limit(r, LOOK_AHEAD_FRAMES);
	for (unsigned n = 0; n < LOOK_AHEAD && capture_next(r, &rec) == 1; n++)
		burst_each(&rec, look_at, v);
	capture_reader_close(r);
	views_decide(v);
}

/* @return whether there is nothing in the capture to judge, and why. */
static bool nothing_judged(const struct verify *v, const char *path, char *err, size_t errlen)
{
	struct text t = text_start(err, errlen);

	if (v->packets != 0 && v->bth_cut == v->packets &&
	    v->by_severity[SEV_ERROR] + v->by_severity[SEV_WARN] == 0) {
		text_add(&t,
			 "none of the %" PRIu64 " RoCEv2 packets of %s has its whole BTH: capture "
			 "at least 128 bytes of each frame (tcpdump -s 128)",
			 v->packets, path);
		return true;
	}
	if (v->packets != 0)
		return false;
	text_add(&t, "%s has no RoCEv2 packets (UDP port 4791) in its %" PRIu64 " frames", path,
		 v->frames);
	if (t.len < errlen)
		capture_passed_text(err + t.len, errlen - t.len, &v->passed);
	return true;
}

/* All of r, which ends here. */
static int verify_all(struct verify *v, struct capture_reader *r, const char *path, char *err,
		      size_t errlen)
{
	struct capture_rec rec;
	int ret;

	reader_set(v, r);
	/* Findings that cannot be printed end it, which may go on for days. */
	while ((ret = capture_next(r, &rec)) > 0 && !(v->follow != NULL && ferror(v->follow))) {
		if (ret == 1)
			verify_input(v, &rec);
		if (ret == 2 || (v->follow != NULL && rec.ts_ns - v->idle_ns > IDLE_EVERY_NS))
			verify_idle(v, ret == 2 ? UINT64_MAX : rec.ts_ns);
	}
	v->frames = capture_reader_frames(r);
	v->dropped = capture_reader_dropped(r);
	v->passed = capture_reader_passed(r);
	if (v->stop != NULL && *v->stop != 0)
		ret = 0; /* possibly within a frame */
	if (ret < 0)
		snprintf(err, errlen, "%s is damaged after frame %" PRIu64 ": %s", path, v->frames,
			 capture_reader_error(r));
	capture_reader_close(r);
	verify_finish(v);
	if (ret == 0 && nothing_judged(v, path, err, errlen))
		return -1;
	if (ret == 0 && v->out_of_memory) {
		snprintf(err, errlen, "no memory for all connections of %s", path);
		return -1;
	}
	return ret < 0 ? -1 : 0;
}

int verify_file(struct verify *v, const char *path, char *err, size_t errlen)
{
	struct capture_reader *r;

	if (capture_reader_open(&r, path, err, errlen) < 0)
		return -1;
	look_ahead(v, path);
	return verify_all(v, r, path, err, errlen);
}

int verify_live(struct verify *v, const char *interface, char *err, size_t errlen)
{
	struct capture_reader *r;

	if (capture_reader_open_live(&r, interface, err, errlen) < 0)
		return -1;
	fprintf(stderr, "capturing at %s until SIGINT (Ctrl-C)\n", interface);
	return verify_all(v, r, interface, err, errlen);
}

void verify_idle(struct verify *v, uint64_t now_ns)
{
	v->idle_ns = now_ns != UINT64_MAX ? now_ns : v->idle_ns;
	for (struct flow *f = v->flows; f != NULL; f = f->all_next)
		request_idle(v, f, now_ns);
}

void verify_ignore(struct verify *v, const bool ignored[RULE_COUNT])
{
	memcpy(v->ignored, ignored, sizeof(v->ignored));
}

void verify_ports(struct verify *v, const uint16_t *ports, unsigned n)
{
	v->ports.n = MIN(n, (unsigned)ENCAP_PORTS);
	memcpy(v->ports.port, ports, v->ports.n * sizeof(*ports));
}

void verify_follow(struct verify *v, FILE *f, bool json, unsigned most)
{
	v->follow = f;
	v->follow_json = json;
	v->flow_most = most;
}

void verify_keep(struct verify *v, unsigned keep)
{
	v->keep = MAX(keep, v->show);
}

void verify_stop_at(struct verify *v, const volatile sig_atomic_t *stop)
{
	v->stop = stop;
}
