/* SPDX-License-Identifier: BSD-2-Clause */
/* The judge's desk: takes packets, sends them to the rules, keeps the findings. */
#include "verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { HASH_SIZE = 1 << 14 };

struct verify *verify_new(unsigned keep, unsigned packets)
{
	struct verify *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return NULL;
	v->keep = keep;
	v->flows_tail = &v->flows;
	v->flow_hash = calloc(HASH_SIZE, sizeof(*v->flow_hash));
	v->hosts_hash = calloc(HASH_SIZE, sizeof(*v->hosts_hash));
	if (packets != 0)
		v->log = packet_log_new(packets);
	if (v->flow_hash == NULL || v->hosts_hash == NULL || (packets != 0 && v->log == NULL)) {
		verify_free(v);
		return NULL;
	}
	return v;
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
	for (unsigned i = 0; v->hosts_hash != NULL && i < HASH_SIZE; i++) {
		while (v->hosts_hash[i] != NULL) {
			struct hosts *h = v->hosts_hash[i];

			v->hosts_hash[i] = h->hash_next;
			free(h);
		}
	}
	exchange_free(v);
	ud_free(v);
	packet_log_free(v->log);
	free(v->findings.kept);
	free(v->flow_hash);
	free(v->hosts_hash);
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
	struct finding *n;
	va_list ap;

	v->by_severity[rules[rule].severity]++;
	v->by_rule[rule]++;
	if (fs->count[rule]++ >= v->keep)
		return;
	n = findings_add(v, fs);
	if (n == NULL)
		return;
	n->rule = rule;
	n->number = number;
	n->ts_ns = ts_ns;
	va_start(ap, fmt);
	vsnprintf(n->text, sizeof(n->text), fmt, ap);
	va_end(ap);
}

static void count(struct flow *f, const struct pkt *p)
{
	const struct capture_rec *rec = p->rec;

	if (f->packets++ == 0) {
		f->first_ns = rec->ts_ns;
		f->first_number = rec->number;
		f->sport = rec->ip.sport;
	}
	f->last_ns = rec->ts_ns;
	f->wire_bytes += rec->wire_len;
}

static void judge(struct verify *v, struct flow *f, const struct pkt *p)
{
	uint64_t bytes = f->rq.bytes;

	doubts_tick(v, f);
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

void verify_input(struct verify *v, const struct capture_rec *rec)
{
	struct pkt p = {0};
	struct flow *f = NULL;
	bool good;

	if (v->packets++ == 0)
		v->first_ns = rec->ts_ns;
	v->last_ns = rec->ts_ns;
	v->bytes += rec->wire_len;
	good = form_check(v, &p, rec);
	if (good) {
		f = flow_get(v, &rec->ip, rocemu_opcode_service(p.p.h.opcode), p.p.h.dqpn);
		if (f == NULL && v->by_rule[RULE_TOO_MANY] == 0)
			FOUND(v, NULL, TOO_MANY, &p, "%u", v->flow_n);
	}
	if (f != NULL) {
		count(f, &p);
		judge(v, f, &p);
	}
	if (v->log != NULL)
		packet_log_add(v, &p, f, good);
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
		found_at(v, cnp, RULE_CNP_NO_CE, 0, cnp->last_ns, "QP 0x%x", cnp->dqpn);
}

uint64_t verify_errors(const struct verify *v)
{
	return v->by_severity[SEV_ERROR];
}

int verify_file(struct verify *v, const char *path, char *err, size_t errlen)
{
	struct capture_reader *r;
	struct capture_rec rec;
	int ret = capture_reader_open(&r, path, err, errlen);

	if (ret < 0)
		return -1;
	while ((ret = capture_next(r, &rec)) == 1)
		verify_input(v, &rec);
	v->frames = capture_reader_frames(r);
	if (ret < 0)
		snprintf(err, errlen, "%s is damaged after frame %" PRIu64 ": %s", path, v->frames,
			 capture_reader_error(r));
	capture_reader_close(r);
	verify_finish(v);
	if (ret == 0 && v->packets == 0) {
		snprintf(err, errlen,
			 "%s has no RoCEv2 packets (UDP port 4791) in its %" PRIu64 " frames", path,
			 v->frames);
		return -1;
	}
	if (ret == 0 && v->out_of_memory) {
		snprintf(err, errlen, "no memory for all connections of %s", path);
		return -1;
	}
	return ret < 0 ? -1 : 0;
}
