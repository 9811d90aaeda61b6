/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks a single packet: format, ICRC, pad, reserved bits, P_Key. */
#include <string.h>

#include "model.h"
#include "capture/cut.h"
#include "wire/text.h"

enum {
	VENDOR_OPCODES = 0xc0,
	CNP_PAYLOAD = 16,
	ECN_MASK = 3,
	ECN_CE = 3,
	PKEY_FULL = 0x8000,
	FETH_TYPE_MASK = 0xf,
	FETH_TYPES = 0x3, /* global visibility, persistence */
	FETH_LEVEL_SHIFT = 4,
	FETH_LEVEL_MR = 1,
	ATOMIC_LEN = 8,
	LONGEST = ROCEMU_MAX_PACKET - 4, /* more is a burst that was not segmented yet */
};

/* @return false: wrong, with a finding; a receiver drops it. */
static bool check_icrc(struct verify *v, const struct pkt *p)
{
	v->icrc_checked++;
	if (!p->icrc_wrong)
		return true;
	v->icrc_wrong++;
	FOUND(v, NULL, ICRC_WRONG, p, "%s psn %u to QP 0x%x", rocemu_opcode_name(p->p.h.opcode),
	      p->p.h.psn, p->p.h.dqpn);
	return v->ignored[RULE_ICRC_WRONG];
}

/* Count what the capture does not have. @return false: nothing can be judged. */
static bool note_cut(struct verify *v, const struct pkt *p)
{
	const struct capture_rec *rec = p->rec;
	bool bth = cut_has_bth(rec);
	uint32_t hdrs = bth ? rocemu_opcode_hdrs(rec->data[0]) & ~p->hdrs : 0;
	char names[64] = "the BTH";

	if (bth)
		cut_names(names, sizeof(names), hdrs);
	v->icrc_unchecked++;
	v->headers_cut += hdrs != 0;
	v->bth_cut += !bth;
	if (!bth || hdrs != 0 || rec->hides)
		veil_note(v, &rec->ip, bth ? BETWEEN_HEADERS_CUT : BETWEEN_BTH_CUT);
	if (!rec->fragment)
		FOUND(v, NULL, CUT, p, "%zu of %zu bytes captured%s%s", rec->len, rec->wire_len,
		      *names ? ", not all of " : "", names);
	return bth;
}

static bool form_bad(struct verify *v, const struct pkt *p, enum rocemu_drop why)
{
	const struct capture_rec *rec = p->rec;

	switch (why) {
	case ROCEMU_DROP_NONE:
		return false;
	case ROCEMU_DROP_OPCODE:
		FOUND(v, NULL, OPCODE_UNKNOWN, p, "opcode 0x%02x%s", rec->data[0],
		      rec->data[0] >= VENDOR_OPCODES ? ", a manufacturer's own" : "");
		return true;
	case ROCEMU_DROP_TVER:
		FOUND(v, NULL, TVER, p, "version %u", p->p.h.tver);
		return true;
	case ROCEMU_DROP_PAD:
		FOUND(v, NULL, PAD, p, "pad count %u on %s of %zu bytes", p->p.h.pad,
		      rocemu_opcode_name(p->p.h.opcode), rec->wire_len);
		return true;
	case ROCEMU_DROP_SHORT:
		FOUND(v, NULL, MALFORMED, p, "%zu bytes from the BTH to the ICRC", rec->wire_len);
		return true;
	default:
		if (p->hides)
			return false;
		if (rec->wire_len > LONGEST)
			FOUND(v, NULL, UNSEGMENTED, p, "%zu bytes", rec->wire_len);
		else
			FOUND(v, NULL, MALFORMED, p, "%s of %zu bytes: %s",
			      rocemu_opcode_name(rec->data[0]), rec->wire_len,
			      rocemu_drop_text(why));
		return true;
	}
}

static void check_cnp(struct verify *v, const struct pkt *p)
{
	bool zero = true;

	if (!p->p.h.becn) {
		FOUND(v, NULL, CNP_FORM, p, "BECN is not set");
		return;
	}
	if (p->hides)
		return;
	for (uint32_t i = 0; !p->cut && i < p->p.payload_len; i++)
		zero = zero && p->p.payload[i] == 0;
	if (p->p.payload_len != CNP_PAYLOAD || !zero)
		FOUND(v, NULL, CNP_FORM, p, "%u bytes of payload%s", p->p.payload_len,
		      zero ? "" : ", not all zero");
}

/* Extension headers whose values the opcode restricts. */
static void check_extensions(struct verify *v, const struct pkt *p)
{
	const struct rocemu_hdrs *h = &p->p.h;
	uint32_t feth = h->feth.raw;
	bool reth = pkt_has(p, ROCEMU_HDR_RETH), atomiceth = pkt_has(p, ROCEMU_HDR_ATOMICETH);

	if ((pkt_has(p, ROCEMU_HDR_DETH) && h->deth.resv != 0) ||
	    (pkt_has(p, ROCEMU_HDR_XRCETH) && h->xrceth.resv != 0))
		FOUND(v, NULL, RESERVED, p, "in the %s",
		      pkt_has(p, ROCEMU_HDR_DETH) ? "DETH" : "XRCETH");
	if (pkt_has(p, ROCEMU_HDR_FETH) &&
	    ((feth >> FETH_LEVEL_SHIFT) > FETH_LEVEL_MR || (feth & FETH_TYPES) == 0 ||
	     (feth & FETH_TYPE_MASK) > FETH_TYPES))
		FOUND(v, NULL, FLUSH_FORM, p, "placement type 0x%x, level %u",
		      feth & FETH_TYPE_MASK, feth >> FETH_LEVEL_SHIFT);
	if (p->ops & ROCEMU_OP_ATOMIC_WRITE && ((reth && h->reth.length != ATOMIC_LEN) ||
						(!p->hides && p->p.payload_len != ATOMIC_LEN)))
		FOUND(v, NULL, ATOMIC_WRITE, p, "%u bytes, the RETH has %u", p->p.payload_len,
		      h->reth.length);
	if ((p->ops & ROCEMU_OP_ATOMIC_WRITE && reth && h->reth.va % ATOMIC_LEN != 0) ||
	    (atomiceth && h->atomiceth.va % ATOMIC_LEN != 0))
		FOUND(v, NULL, ATOMIC_ALIGN, p, "%s with PSN %u", rocemu_opcode_name(h->opcode),
		      h->psn);
}

/* What IP's headers have that RoCEv2's do not. */
static void check_ip(struct verify *v, const struct pkt *p)
{
	const struct capture_rec *rec = p->rec;
	char names[100] = "";
	struct text t = text_start(names, sizeof(names));

	if (rec->fragment && rec->early != 0)
		FOUND(v, NULL, IP_FRAGMENT, p, "%zu of %zu bytes; %u of its fragments came before",
		      rec->len, rec->wire_len, rec->early);
	else if (rec->fragment)
		FOUND(v, NULL, IP_FRAGMENT, p, "%zu of %zu bytes", rec->len, rec->wire_len);
	for (unsigned i = 0; i < IP_EXTRA_COUNT; i++) {
		if ((rec->extras & 1u << i) != 0 && !(rec->fragment && i == IP_EXTRA_FRAGMENT))
			text_add(&t, "%s%s", t.len != 0 ? ", " : "", ip_extra_name(i));
	}
	if (t.len != 0)
		FOUND(v, NULL, IP_OPTIONS, p, "%s", names);
}

void form_check_fragment(struct verify *v, const struct pkt *p)
{
	FOUND(v, NULL, IP_FRAGMENT, p, "%zu bytes, from byte %u of UDP's on", p->rec->len,
	      p->rec->fragment_at);
}

bool form_check(struct verify *v, struct pkt *p, const struct capture_rec *rec)
{
	enum rocemu_drop why;

	p->rec = rec;
	p->cut = rec->wire_len > rec->len;
	/* A burst that is there as a whole is taken apart by its ICRCs. */
	p->hides = rec->hides && (p->cut || v->ignored[RULE_ICRC_WRONG]);
	p->ops = 0;
	if (rec->fragment || rec->extras != 0)
		check_ip(v, p);
	why = cut_decode(&p->p, &p->hdrs, rec);
	if (p->cut && !note_cut(v, p))
		return false;
	if (p->hides)
		FOUND(v, NULL, UNSEGMENTED, p, "%zu bytes%s", rec->wire_len, p->cut ? ", cut" : "");
	/* A packet damaged on the path is no fault of its sender, whatever its contents. */
	if (!p->cut && rec->len >= ROCEMU_BTH_LEN + ROCEMU_ICRC_LEN && rec->len <= LONGEST &&
	    !check_icrc(v, p))
		return false;
	if (form_bad(v, p, why))
		return false;
	p->ops = rocemu_opcode_ops(p->p.h.opcode);
	if (!p->hides && ((p->p.payload_len + p->p.h.pad) & 3) != 0)
		FOUND(v, NULL, PAD, p, "%u bytes of payload with pad count %u", p->p.payload_len,
		      p->p.h.pad);
	if ((p->p.h.resv7 != 0 || p->p.h.resv8a != 0) && !sender_known(v, p))
		FOUND(v, NULL, RESERVED, p, "resv8a 0x%x, resv7 0x%x", p->p.h.resv8a, p->p.h.resv7);
	check_extensions(v, p);
	if (p->ops & ROCEMU_OP_CNP)
		check_cnp(v, p);
	return true;
}

void form_check_flow(struct verify *v, struct flow *f, const struct pkt *p)
{
	uint16_t pkey = p->p.h.pkey;

	if ((p->rec->ip.tclass & ECN_MASK) == ECN_CE)
		f->ce++;
	if ((p->ops & ROCEMU_OP_CNP) != 0)
		return; /* senders differ in what P_Key they put there */
	if ((pkey & ~PKEY_FULL) == 0) {
		FOUND(v, f, PKEY, p, "P_Key 0x%04x", pkey);
		return;
	}
	if (!f->pkey_known) {
		f->pkey = pkey;
		f->pkey_known = true;
	} else if (pkey != f->pkey) {
		FOUND(v, f, PKEY, p, "P_Key 0x%04x, before 0x%04x", pkey, f->pkey);
		return;
	}
	if (f->peer == NULL || !f->peer->pkey_known)
		return;
	if (((pkey ^ f->peer->pkey) & ~PKEY_FULL) != 0 || ((pkey | f->peer->pkey) & PKEY_FULL) == 0)
		FOUND(v, f, PKEY, p, "P_Key 0x%04x, in the other direction 0x%04x", pkey,
		      f->peer->pkey);
}
