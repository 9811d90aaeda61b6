/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutants of the responder: each breaks one rule, and the case of `rocemu conform` that it names
 * has to fail with it.
 */
#ifndef TEST_CONFORM_MUTANTS_H
#define TEST_CONFORM_MUTANTS_H

#include <stdbool.h>

/* X(identifier, name, cases that fail, what it does wrong) */
/* clang-format off */
#define MUTANT_LIST(X) \
	X(M_HELLO_SILENT,      "hello-silent",       "gsi/hello",       "a REQ to a service that there is not has no answer") \
	X(M_HELLO_REASON,      "hello-reason",       "gsi/hello gsi/again gsi/icrc-variant gsi/service gsi/unknown-dreq gsi/unknown-ids", "a REQ to a service that there is not is rejected for reason 3") \
	X(M_TID,               "tid",                "gsi/hello",       "a REJ has another transaction ID than the REQ") \
	X(M_REJ_COMM_ID,       "rej-comm-id",        "gsi/hello",       "a REJ names another communication ID") \
	X(M_GSI_ICRC,          "gsi-icrc",           "gsi/icrc",        "QP 1 does not check the ICRC") \
	X(M_ICRC_VARIANT,      "icrc-variant",       "gsi/icrc-variant", "QP 1 drops packets with a DSCP") \
	X(M_GSI_QKEY,          "gsi-qkey",           "gsi/qkey",        "QP 1 takes any Q_Key") \
	X(M_QP0,               "qp0",                "gsi/qp0",         "QP 0 answers as QP 1") \
	X(M_NO_QP,             "no-qp",              "gsi/no-qp",       "QP 1 answers for queue pairs that there are not") \
	X(M_TVER,              "tver",               "gsi/tver",        "any header version is taken") \
	X(M_GSI_PKEY,          "gsi-pkey",           "gsi/pkey",        "QP 1 takes any P_Key") \
	X(M_PKEY_LIMITED,      "pkey-limited",       "gsi/pkey-limited", "QP 1 drops packets of limited members") \
	X(M_GSI_SERVICE,       "gsi-service",        "gsi/service",     "QP 1 takes opcodes of all services") \
	X(M_RESERVED,          "reserved",           "gsi/reserved",    "QP 1 drops packets with reserved bits") \
	X(M_MAD_SIZE,          "mad-size",           "gsi/mad-size",    "QP 1 takes MADs of any size") \
	X(M_MAD_GARBAGE,       "mad-garbage",        "gsi/mad-garbage gsi/base-version gsi/class-version", "class, version and attribute are not looked at") \
	X(M_LID_FIELDS,        "lid-fields",         "gsi/lid-fields",  "a REQ is rejected for its LID") \
	X(M_SOURCE_PORT,       "source-port",        "gsi/source-port", "QP 1 answers to the UDP port that the request came from") \
	X(M_GSI_ECT,           "gsi-ect",            "gsi/answer-form", "what QP 1 sends is ECN-capable") \
	X(M_ICRC_SENT,         "icrc-sent",          "gsi/answer-form", "packets leave with a wrong ICRC") \
	X(M_GSI_MIGREQ,        "gsi-migreq",         "gsi/reserved",    "QP 1 drops packets without MigReq") \
	X(M_SIDR_SILENT,       "sidr-silent",        "gsi/sidr",        "a SIDR_REQ to a service that there is not has no answer") \
	X(M_DREQ_UNKNOWN,      "dreq-unknown",       "gsi/unknown-dreq", "a DREQ of no connection has no answer") \
	X(M_DREQ_QPN,          "dreq-qpn",           "cm/order-qpn",    "a DREQ with another QPN ends the connection") \
	X(M_REQ_AGAIN,         "req-again",          "cm/again",        "a repeated REQ has no answer") \
	X(M_DREQ_AGAIN,        "dreq-again",         "cm/again",        "a repeated DREQ has no answer") \
	X(M_DREQ_SILENT,       "dreq-silent",        "cm/again cm/again-late cm/connect cm/family cm/order", "a DREQ has no answer") \
	X(M_CM_STALE,          "stale",              "cm/stale",        "a REQ with the QPN of a connection makes another one") \
	X(M_TRANSPORT,         "transport",          "cm/transport",    "a REQ may be for any transport") \
	X(M_CM_MTU,            "cm-mtu",             "cm/mtu",          "a REQ with a path MTU above 1024 is rejected") \
	X(M_REUSED_ID,         "reused-id",          "cm/reused-id",    "a communication ID may be used twice") \
	X(M_RTU_LOST,          "rtu-lost",           "cm/rtu-lost",     "a REP is not repeated") \
	X(M_IN_ICRC,           "in-icrc",            "in/icrc",         "the ICRC is not checked") \
	X(M_IN_SOURCE,         "in-source",          "in/source",       "the source address is not checked") \
	X(M_IN_SERVICE,        "in-service",         "in/service ud/rc-to-ud", "opcodes of other services are taken") \
	X(M_OPCODE_RESERVED,   "opcode-reserved",    "in/opcode-reserved", "a reserved opcode is taken as SEND ONLY") \
	X(M_IN_PKEY,           "in-pkey",            "in/pkey",         "any P_Key is taken") \
	X(M_MIGREQ_TAKEN,      "migreq-taken",       "in/migreq-taken", "packets without MigReq are dropped") \
	X(M_MIGREQ_SENT,       "migreq-sent",        "in/migreq-sent",  "packets are sent without MigReq") \
	X(M_PORT_CHANGE,       "port-change",        "in/port-change",  "packets from another UDP source port are dropped") \
	X(M_ERROR_ANSWERS,     "error-answers",      "in/error-silent in/modified-error key/atomic-write", "a queue pair in error answers") \
	X(M_DQPN_SENT,         "dqpn-sent",          "in/migreq-taken", "packets have another destination QP") \
	X(M_PAD_SENT,          "pad-sent",           "rnr/not-a-retry", "pad bytes are not 0") \
	X(M_GAP_NO_NAK,        "gap-no-nak",         "seq/gap in/opcode-reserved", "a gap is answered by silence") \
	X(M_GAP_EACH,          "gap-each",           "seq/gap seq/nak-once", "each packet behind a gap has a NAK") \
	X(M_ACKREQ_MIDDLE,     "ackreq-middle",      "seq/ackreq-middle", "AckReq in FIRST and MIDDLE is ignored") \
	X(M_ACKREQ_MIDDLE_MSN, "ackreq-middle-msn",  "seq/ackreq-middle seq/msn", "each packet counts in the MSN") \
	X(M_MSN,               "msn",                "seq/coalesce in/credits-sent", "each message counts twice in the MSN") \
	X(M_DUP_SILENT,        "dup-silent",         "dup/send dup/send-completes-once", "duplicates have no answer") \
	X(M_DUP_NAK,           "dup-nak",            "dup/send",        "duplicates are answered by a NAK") \
	X(M_DUP_OLD_PSN,       "dup-old-psn",        "dup/old-ack dup/many seq/behind", "the ACK of a duplicate has its PSN") \
	X(M_MIDDLE_FIRST,      "middle-first",       "op/middle-first", "MIDDLE and LAST without FIRST are taken") \
	X(M_FIRST_INSIDE,      "first-inside",       "op/first-inside", "FIRST and ONLY inside a message are taken") \
	X(M_KIND_CHANGES,      "kind-changes",       "key/qp-rights op/kind-changes", "a WRITE MIDDLE inside a SEND is taken") \
	X(M_READ_INSIDE,       "read-inside",        "op/read-inside",  "a READ inside a SEND is taken") \
	X(M_NOT_ENABLED,       "not-enabled",        "op/not-enabled",  "the rights of the queue pair are not looked at") \
	X(M_FATAL_SILENT,      "fatal-silent",       "op/middle-first in/reset op/flush op/kind-changes", "a broken rule is answered by silence") \
	X(M_AFTER_NAK,         "after-nak",          "op/after-nak key/atomic-bounds", "the queue pair goes on after a fatal NAK") \
	X(M_UC_MIDDLE,         "uc-middle",          "op/uc-middle",    "UC: MIDDLE and LAST without FIRST are taken") \
	X(M_UC_GAP,            "uc-gap",             "op/uc-gap",       "UC: the message behind a gap is dropped") \
	X(M_UC_FATAL,          "uc-fatal",           "op/uc-middle",    "UC: a broken rule is the end") \
	X(M_FIRST_SHORT,       "first-short",        "len/first-short len/middle-short", "FIRST and MIDDLE may have any length") \
	X(M_ONLY_LONG,         "only-long",          "len/only-long",   "ONLY may be longer than the path MTU") \
	X(M_LAST_EMPTY,        "last-empty",         "len/last-empty",  "LAST may be empty") \
	X(M_PAD_FIRST,         "pad-first",          "len/pad",         "FIRST may have pad bytes") \
	X(M_RETH,              "reth",               "len/reth len/reth-only", "packets need not add up to the RETH") \
	X(M_2_GIB,             "2-gib",              "len/2-gib",       "messages may be longer than 2^31") \
	X(M_CNP,               "cnp",                "cc/cnp-pace cc/cnp-read", "a marked packet has no CNP") \
	X(M_CNP_ALWAYS,        "cnp-always",         "seq/nak-cnp",     "CNPs for packets that are not marked") \
	X(M_CNP_PSN,           "cnp-psn",            "cc/cnp-form",     "a CNP has a PSN") \
	X(M_CNP_PAYLOAD,       "cnp-payload",        "cc/cnp-form",     "the bytes of a CNP are not 0") \
	X(M_CNP_LEN,           "cnp-len",            "cc/cnp-form",     "a CNP has no payload") \
	X(M_CNP_FATAL,         "cnp-fatal",          "cc/cnp-flood",    "a CNP is the end of all queue pairs") \
	X(M_ECT,               "ect",                "cc/ect",          "packets are not ECN-capable") \
	X(M_UD_QKEY,           "ud-qkey",            "ud/qkey ud/qkey-completion", "UD: any Q_Key is taken") \
	X(M_UD_TOO_LONG,       "ud-too-long",        "ud/too-long ud/short-receive", "UD: a datagram that is too long is the end") \
	X(M_TIMEOUT_FIRST,     "timeout-first",      "req/timeout-first req/timeout-total req/probes", "repeats after an eighth of the ACK timeout") \
	X(M_TIMEOUT_LATE,      "timeout-late",       "req/timeout-first req/timeout-range", "repeats after eight times the ACK timeout") \
	X(M_TIMEOUT_COUNT,     "timeout-count",      "req/timeout-count req/retry-status req/timeout-extra", "repeats for ever") \
	X(M_TIMEOUT_RESET,     "timeout-reset",      "req/timeout-reset", "the retry count does not start anew") \
	X(M_TIMEOUT_ZERO,      "timeout-zero",       "req/timeout-zero", "repeats without an ACK timeout") \
	X(M_NO_ACKREQ,         "no-ackreq",          "cm/mra-rtu-lost req/coalesced-rping req/ghost-rping req/packets rnr/wait-floor", "requests have no AckReq") \
	X(M_NAK_RESEND,        "nak-resend",         "req/nak-resend req/nak-range", "a sequence NAK is ignored") \
	X(M_NAK_OLD,           "nak-old",            "req/nak-old req/old-ack", "a NAK of what is acknowledged counts") \
	X(M_NAK_FATAL,         "nak-fatal",          "req/nak-fatal req/read-nak req/read-nak-rping", "NAKs of errors are ignored") \
	X(M_NAK_RESERVED,      "nak-reserved",       "req/nak-reserved req/nak-reserved-rping", "a reserved NAK code is an error") \
	X(M_AETH_RESERVED,     "aeth-reserved",      "req/aeth-reserved", "an AETH of the reserved class is an error") \
	X(M_GHOST,             "ghost",              "req/ghost",       "an ACK of what was never sent counts") \
	X(M_READ_WHOLE,        "read-whole",         "req/read-gap req/read-gap-from req/read-gap-rping", "a READ is repeated as a whole") \
	X(M_READ_OPCODE,       "read-opcode",        "req/read-opcode", "opcodes of READ responses are not looked at") \
	X(M_READ_LENGTH,       "read-length",        "req/read-opcode req/read-length req/read-long", "lengths of READ responses are not looked at") \
	X(M_READ_DEPTH,        "read-depth",         "req/read-depth",  "more READs at once than the peer takes") \
	X(M_REQ_MTU,           "req-mtu",            "req/mtu",         "the path MTU is 1024, whatever the REQ has") \
	X(M_REQ_PSN,           "req-psn",            "req/psn cm/comm-est req/read-opcode-rping", "the highest bit of the PSN in the REQ is ignored") \
	X(M_INIT,              "init",               "in/init",         "a queue pair keeps a packet that comes in INIT") \
	X(M_DUP_EXECUTED,      "dup-executed",       "dup/write dup/flood", "a WRITE is executed again") \
	X(M_DUP_READ_SILENT,   "dup-read-silent",    "dup/read dup/read-now", "a repeated READ has no answer") \
	X(M_DUP_READ_PART,     "dup-read-part",      "dup/read-part",   "a part of a READ is answered from the READ's first PSN on") \
	X(M_DUP_READ_WIDER,    "dup-read-wider",     "dup/read-wider",  "any READ with the PSN of another is answered") \
	X(M_DUP_ATOMIC,        "dup-atomic",         "dup/atomic dup/atomic-before", "a repeated atomic is executed again") \
	X(M_DUP_ATOMIC_SILENT, "dup-atomic-silent",  "dup/atomic",      "a repeated atomic has no answer") \
	X(M_DUP_ATOMIC_OTHER,  "dup-atomic-other",   "dup/atomic-other dup/atomic-old", "an atomic with a PSN of another and other operands is executed") \
	X(M_TOO_LONG,          "too-long",           "len/too-long len/send-too-long", "a SEND longer than the receive has NAK 63") \
	X(M_KEY_UNKNOWN,       "key-unknown",        "key/unknown key/event key/imm-refused key/told-write", "any key is taken") \
	X(M_KEY_BOUNDS,        "key-bounds",         "key/bounds key/partial key/partial-bytes key/read-bounds key/told-bounds key/told-read", "the end of an access may be out of bounds") \
	X(M_KEY_ZERO,          "key-zero",           "key/zero",        "the key is looked at without bytes") \
	X(M_KEY_RIGHTS,        "key-rights",         "key/rights key/window-rights", "the rights of a region are not looked at") \
	X(M_KEY_PD,            "key-pd",             "key/pd",          "the protection domain is not looked at") \
	X(M_KEY_GONE,          "key-gone",           "key/gone key/gone-inside", "a deregistered region is there") \
	X(M_KEY_WINDOW,        "key-window",         "key/window",      "a window has the bounds of its region") \
	X(M_NO_DEPTH,          "no-depth",           "key/too-many-reads", "READs and atomics need no responder resources") \
	X(M_INV_WINDOW,        "inv-window",         "key/window-invalidated", "a SEND with invalidate leaves the window as it is") \
	X(M_FENCE,             "fence",              "req/fence",       "a fenced request does not wait") \
	X(M_ACK_ALL,           "ack-all",            "req/complete req/complete-rping", "an ACK completes all requests") \
	X(M_ACK_ONE,           "ack-one",            "req/coalesced",   "an ACK completes one request") \
	X(M_READ_PLACE,        "read-place",         "req/read-place",  "READ responses are placed one over the other") \
	X(M_ATOMIC_VALUE,      "atomic-value",       "req/atomic-answer", "the result of an atomic is 0") \
	X(M_IMM_SENT,          "imm-sent",           "req/imm",         "immediate data is 0") \
	X(M_RKEY_SENT,         "rkey-sent",          "req/reth req/reth-rping req/timeout-same", "requests have another key") \
	X(M_ZERO_SENT,         "zero-sent",          "req/zero",        "a message of no bytes has four") \
	X(M_NO_FLUSH,          "no-flush",           "req/error-silent req/nak-status", "requests are not flushed") \
	X(M_SIGNALED,          "signaled",           "req/signalled",   "each request has a completion") \
	X(M_PIECES,            "pieces",             "req/pieces",      "a message repeats its first piece") \
	X(M_PORT_EACH,         "port-each",          "req/port",        "each message has a UDP source port of its own") \
	X(M_CE_DROPPED,        "ce-dropped",         "cc/cnp",          "marked packets are dropped") \
	X(M_RECV_EXACT,        "recv-exact",         "len/exact",       "a SEND as long as the receive is refused") \
	X(M_SCATTER,           "scatter",            "len/scatter",     "a receive has its first piece only") \
	X(M_CMP_SWAP,          "cmp-swap",           "op/atomics",      "CmpSwap does not compare") \
	X(M_UC_WRITE,          "uc-write",           "op/uc-write op/uc-wrong-key", "UC: WRITEs are dropped") \
	X(M_RESPONSE_TAKEN,    "response-taken",     "req/answer-wrong req/atomic-wrong", "a READ response completes any request") \
	X(M_CREDITS,           "credits",            "req/credits",     "a credit code holds requests back") \
	X(M_QKEY_SENT,         "qkey-sent",          "req/ud",          "UD: the Q_Key of datagrams is 0") \
	X(M_READ_LATE,         "read-late",          "seq/order",       "READ responses leave behind those of the next request") \
	X(M_PAD_BYTES,         "pad-bytes",          "len/pad-bytes",   "packets whose last pad byte is not 0 are dropped") \
	X(M_UD_NO_RECV,        "ud-no-recv",         "ud/no-receive",   "UD: a datagram without a receive is the end") \
	X(M_UC_COMPLETION,     "uc-completion",      "req/uc req/uc-write", "UC: requests do not complete") \
	X(M_IMM_TAKEN,         "imm-taken",          "op/imm",          "a completion's immediate data is 0") \
	X(M_INLINE,            "inline",             "req/inline",      "inline data is other data") \
	X(M_LAP_UNKNOWN,       "lap-unknown",        "gsi/unknown-lap", "a LAP of no connection is rejected") \
	X(M_CNP_BECN,          "cnp-becn",           "cc/cnp-becn",     "a CNP has no BECN") \
	X(M_DEADLY_OPCODE,     "deadly-opcode",      "robust/opcodes",  "the device ends with an unknown opcode") \
	X(M_DEADLY_SIZE,       "deadly-size",        "robust/sizes",    "the device ends with an ATOMIC WRITE shorter than its headers") \
	X(M_DEADLY_LENGTH,     "deadly-length",      "robust/headers",  "the device ends with a WRITE of 2^32 - 1 bytes") \
	X(M_ATOMIC_ALIGN,      "atomic-align",       "key/atomic-unaligned key/told-atomic", "an atomic may have any address") \
	X(M_RNR_CODE,          "rnr-code",           "rnr/nak rnr/again rnr/first", "an RNR NAK has another time than min_rnr_timer") \
	X(M_RNR_FATAL,         "rnr-fatal",          "rnr/nak rnr/code rnr/later", "without a receive the answer is NAK 63") \
	X(M_RNR_BEHIND,        "rnr-behind",         "rnr/behind",      "a packet behind a refused one has a sequence NAK") \
	X(M_UD_GRH,            "ud-grh",             "ud/grh",          "the IPv4 header is in front of its place") \
	X(M_KEEPS,             "keeps",              "seq/recovery",    "SENDs that come early are kept") \
	X(M_HALF,              "half",               "seq/half seq/ahead", "PSNs from 2^22 on are duplicates") \
	X(M_WRAP,              "wrap",               "seq/wrap",        "PSN 0 is left out") \
	X(M_GAP_ONCE,          "gap-once",           "seq/gap-again seq/nak-latency", "only the first gap has a NAK") \
	X(M_GAP_STUCK,         "gap-stuck",          "seq/nak-lost seq/swap", "nothing is taken after a NAK") \
	X(M_DUP_MIDDLE,        "dup-middle",         "dup/middle",      "a duplicate ends the message under way") \
	X(M_ZERO_PSN,          "zero-psn",           "len/zero len/send-zero", "a message of no bytes has no PSN") \
	X(M_INV_TAKEN,         "inv-taken",          "key/inv-refused", "a SEND with invalidate is taken, whatever the key") \
	X(M_INV_NAK,           "inv-nak",            "key/inv-refused", "a SEND with invalidate of no key has a NAK") \
	X(M_RNR_WRITE,         "rnr-write",          "rnr/write-imm",   "a WRITE with immediate needs no receive") \
	X(M_RNR_CODE_0,        "rnr-code-0",         "rnr/code-0 rnr/code-0-rping", "RNR timer 0 is no wait") \
	X(M_RNR_RESUME,        "rnr-resume",         "rnr/resume-all rnr/resume-all-rping", "after an RNR NAK only the refused packet is sent again") \
	X(M_NAK_WHOLE,         "nak-whole",          "req/nak-resend",  "a sequence NAK repeats the whole message") \
	X(M_READ_TWICE,        "read-twice",         "req/read-twice req/read-twice-rping", "a repeated READ response is the end") \
	X(M_CE_INVALID,        "ce-invalid",         "cc/ce-invalid",   "packets that are dropped have CNPs, too") \
	X(M_COMM_EST,          "comm-est",           "in/rtr-event",    "no event for a packet in RTR") \
	X(M_TRUNCATED,         "truncated",          "in/truncated len/pad-missing", "what is missing of headers is taken as 0") \
	X(M_TTL,               "ttl",                "req/ip",          "packets have a TTL of 1") \
	X(M_RNR_WAIT,          "rnr-wait",           "rnr/wait rnr/wait-rping", "waits an eighth of what an RNR NAK demands") \
	X(M_RNR_COUNT,         "rnr-count",          "rnr/count rnr/count-rping", "repeats for ever after RNR NAKs") \
	X(M_RNR_INFINITE,      "rnr-infinite",       "rnr/infinite rnr/infinite-rping", "gives up after 7 RNR NAKs") \
	X(M_REP_UNKNOWN,       "rep-unknown",        "gsi/unknown-rep", "a REP to no REQ is not rejected") \
	X(M_AGAIN_RKEY,        "again-rkey",         "req/timeout-same", "a READ that is repeated has another key") \
	X(M_READ_ACK,          "read-ack",           "req/read-ack req/implied-nak", "an ACK completes a READ") \
	X(M_RNR_OVERTAKES,     "rnr-overtakes",      "rnr/order",       "what is posted while an RNR NAK is waited for leaves at once") \
	X(M_RNR_RETRY,         "rnr-retry",          "rnr/not-a-retry", "an RNR NAK uses a retry") \
	X(M_IP_OPTIONS,        "ip-options",         "gsi/ip-options",  "packets whose IPv4 header has options are taken") \
	X(M_FRAGMENT,          "fragment",           "gsi/fragment",    "packets that came in fragments are taken") \
	X(M_DF,                "df",                 "gsi/df",          "packets that may be fragmented are taken") \
	X(M_LENGTHS,           "lengths",            "gsi/lengths",     "QP 1 takes packets that the UDP length cuts") \
	X(M_UDP_CHECKSUM,      "udp-checksum",       "gsi/udp-checksum-wrong", "the UDP checksum is not looked at") \
	X(M_OPTIONS_SENT,      "options-sent",       "gsi/answer-form", "what QP 1 sends has IP options") \
	X(M_BEFORE_RTU,        "before-rtu",         "cm/mra-rtu-lost in/rtr-rping", "packets in front of the RTU are dropped")
/* clang-format on */

enum mutant {
	HONEST,
#define X(id, name, kills, text) id,
	MUTANT_LIST(X)
#undef X
		MUTANTS
};

extern enum mutant mutant_chosen;

/** Is the process this mutant? */
static inline bool mutant(enum mutant m)
{
	return mutant_chosen == m;
}

/** @return false: there is none of this name. */
bool mutant_choose(const char *name);
/** A line for each: name, case, text. */
void mutants_print(void);

#endif
