/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenarios that are wrong: where and why they are refused, or how they fail. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "endpoint.h"

/** Run the only case of a text, all rounds, until one does not pass: "line:column: text". */
static const char *run_with(const struct scenario_backend *b, const char *text)
{
	static const char *const verdict[] = {"ok", "fail", "error", "cannot"};
	static char out[sizeof(((struct scenario_error *)NULL)->text) + 320];
	struct scenario_result r = {0};
	struct scenario *s = scenario_read(text, strlen(text), "x", &r.error);

	snprintf(out, sizeof(out), "ok");
	if (!s)
		r.verdict = SCENARIO_ERROR;
	for (unsigned i = 0; s && i < s->cases[0].rounds && r.verdict == SCENARIO_PASS; i++)
		scenario_run(s, 0, i, b, NULL, &r);
	if (r.verdict != SCENARIO_PASS)
		snprintf(out, sizeof(out), "%s %u:%u: %s%s%s", verdict[r.verdict], r.error.line,
			 r.error.column, r.error.text, *r.values ? " with " : "", r.values);
	scenario_free(s);
	return out;
}

static const char *run(const char *text)
{
	return run_with(&scenario_endpoint, text);
}

struct row {
	const char *text, *want;
};

static void check(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_string_equal(run(rows[i].text), rows[i].want);
}

TEST(language, file__not_of_the_form__refused_with_its_place)
{
	static const struct row rows[] = {
		{"qp RC\n", "error 1:1: a file begins with 'case NAME'"},
		{"case\n", "error 1:0: a case needs a name"},
		{"case a\nqp RC\nwith N: 1\n",
		 "error 3:0: 'with' stands before all other lines of a case"},
		{"case a\nwith n: 1\n", "error 2:6: 'n:': a name has capital letters and '_' only"},
		{"case a\nwith N\n", "error 2:0: there is no table 'N' above"},
		{"case a\nwith N M\n", "error 2:0: 'NAME...:' and values are expected"},
		{"case a\nwith\n", "error 2:0: 'NAME...:' and values are expected"},
		{"table t\n", "error 1:0: 'NAME...:' and values are expected"},
		{"table t N: 1\n", "error 1:12: the rows of a table are lines of their own"},
		{"table t N M:\n| 1\n", "error 2:0: 1 values for 2 names"},
		{"table t N:\nqp RC\n", "error 2:1: '|' or 'case' is expected"},
		{"table t N:\ncase a\nwith t\n", "error 3:0: the table 't' has no rows"},
		{"case a\nwith N M: 1 2 | 3\n", "error 2:0: 1 values for 2 names"},
		{"case a\nwith N: 1 2\n", "error 2:11: 2 values for 1 names"},
		{"case a\nwith N: 9..8\n", "error 2:9: '9..8' is not a range of up to 100000"},
		{"case a\nwith N: 0..100000\n",
		 "error 2:9: '0..100000' is not a range of up to 100000"},
		{"case a\nwith N: 1..1000\nwith M: 1..1000\n",
		 "error 3:0: more than 100000 rounds"},
		{"case a\nqp RC \001\n", "error 2:7: byte 0x01: only printable ASCII is allowed"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, line__wrong_word__refused_with_its_place)
{
	static const struct row rows[] = {
		{"case a\nfoo\n", "error 2:1: 'foo' is not a command"},
		{"case a\nstate RTS\n", "error 2:1: 'qp' or 'pair' comes first"},
		{"case a\nqp RX\n", "error 2:4: 'RX' is not a type of queue pair; known: RC, UC, "
				    "UD, XRC_SEND, XRC_RECV"},
		{"case a\nqp RC\n  qp RC\n", "error 3:3: there are queue pairs already"},
		{"case a\nqp RC timeout\n", "error 2:7: a number is expected behind 'timeout'"},
		{"case a\nqp RC timeout 32\n", "error 2:15: '32' is larger than 31, or negative"},
		{"case a\nqp RC\n< SEND_ONLI 0\n", "error 3:3: 'SEND_ONLI' is not an opcode"},
		{"case a\nqp RC\n< SEND_ONLY x\n", "error 3:13: 'x' is not a number"},
		{"case a\nqp RC\n< SEND_ONLY 1+\n", "error 3:13: '1+' is not a number"},
		{"case a\nqp RC\n< SEND_ONLY 0 len -1\n",
		 "error 3:19: '-1' is larger than 4096, or negative"},
		{"case a\nqp RC\nb: state RTS\n",
		 "error 3:1: there is no end 'b': 'pair' makes two"},
		{"case a\npair RC\n< SEND_ONLY 0\n",
		 "error 3:1: a pair gets its packets from each other"},
		{"case a\nqp RC\ncheck mem+131070 untouched\n",
		 "error 3:7: the area ends at 131072"},
		{"case a\nqp RC\ncheck mem-1 untouched\n", "error 3:7: the area ends at 131072"},
		{"case a\nqp RC\ncheck mem len 2 bytes 0a0\n",
		 "error 3:23: '0a0': a byte is two of 0..9 and a..f"},
		{"case a\nqp RC\ncheck mem len 2 bytes 0a\n", "error 3:23: 2 bytes are expected"},
		{"case a\nqp RC\npost_recv at mem-1\n",
		 "error 3:14: a place in mem, send or recv is expected"},
		{"case a\nqp RC\npost_recv sge last+0 8\n",
		 "error 3:15: a place in mem, send or recv is expected"},
		{"case a\nqp RC\n< WRITE_ONLY 0 rkey mem.key\n",
		 "error 3:21: 'mem.key' is not a number"},
		{"case a\nqp RC\npost_send LOCAL_INV inv mw.rkey\n",
		 "error 3:25: 'mw.rkey' is not a number"},
		{"case a\nqp RC\nmodify SQD srq 1\n", "error 3:12: 'srq' cannot be changed"},
		{"case a\nqp RC\nsrq remove\n",
		 "error 3:1: 'new', 'destroy', 'limit N' or 'size N' is expected"},
		{"case a\nqp XRC_RECV\n< SEND_ONLY 0 srqn srq2\n",
		 "error 3:20: 'srq2' is not a number"},
		{"case a\npair RC\narm all\n", "error 3:5: 'all' is not expected here"},
		{"case a\npair RC\nlose\n", "error 3:1: a packet is expected behind 'lose'"},
		{"case a\npair RC\nlose mask\n", "error 3:6: a mask is expected behind 'mask'"},
		{"case a\npair RC\nlose none SEND*\n", "error 3:11: 'SEND*' is not expected here"},
		{"case a\nqp RC\nstate RTS now\n", "error 3:11: 'now' is not expected here"},
		{"case a\nqp RC\nexpect\n", "error 3:1: what has to come is missing; or 'nothing'"},
		{"case a\nqp RC\nexpect ack $N/0\n", "error 3:12: '$N' has no value"},
		{"case a\nqp RC\nfor i 0..2000000 < CNP 0\n", "error 3:7: more than 1000000 steps"},
		{"case a\nqp RC\nwait 2h\n",
		 "error 3:6: '2h' is not a time of up to an hour, such as 10us"},
		{"case a\n", "error 1:0: the case has no 'qp' or 'pair'"},
		{"case a\nqp RC\nfor i 2..1 state RTS\n",
		 "error 3:7: '2..1' ends before it begins"},
		{"case a\nqp RC\n< WRITE_ONLY 0\nexpect ack *\nlast sport 0\n",
		 "error 5:12: 'sport' is not in the headers of what was sent"},
		{"case a\nqp RC\npost_send SEND len 9 from send+131064 flags INLINE\n",
		 "error 3:45: inline data beyond the end of the area"},
		{"case a\nqp RC\nfor i 5 state RTS\n",
		 "error 3:7: '5' is not of the form FIRST..LAST"},
		{"case a\nqp RC\ncounter foo 1\n", "error 3:9: 'foo' is not a counter"},
		{"case a\nqp RC\nreport foo 1\n", "error 3:8: 'foo' is not a value here"},
		{"case a\nqp RC\nreport sends\n", "error 3:8: a value is expected behind 'sends'"},
		{"case a\nqp RC\nreport sends x\n", "error 3:14: 'x' is not a number"},
		{"case a\nqp RC\nreport wqe4.len 0\n", "error 3:8: 'wqe4.len' is not a value here"},
		{"case a\nqp RC\nwhy nothing else\n", "error 3:13: 'else' is not expected here"},
		{"case a\nqp RC path_mtu 256 ip 5\n",
		 "error 2:23: the queue pairs cannot be made: Invalid argument"},
		{"case a\nwith X: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nqp "
		 "RC\nexpect $X $X $X $X $X $X $X $X $X $X $X $X $X $X\n",
		 "error 4:44: the line with its values has more than 776 bytes with X="
		 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
		{"case a\nqp RC\nfor i 0..1\nstate RTS\n", "error 3:7: 'end' is missing"},
		{"case a\nqp RC\nend\n", "error 3:1: 'end' is not a command"},
		{"case a\nqp RC\nfor i 0..4000000000\nend\n", "error 3:7: more than 1000000 steps"},
		{"case a\nqp RC\nfor I 0..1 state RTS\n",
		 "error 3:5: 'I' is not a name in small letters"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, expectation__not_met__fails)
{
	static const struct row rows[] = {
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect nothing\n",
		 "fail 4:0: what came is not what is expected\n  expected: nothing\n  came:     "
		 "ack 0/1"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\n",
		 "fail 3:0: the case ends, and this was not expected: ack 0/1"},
		{"case a\npair RC\npost_send RDMA_WRITE len 8\nb: until ack 0/2\n",
		 "fail 4:0: this never came: ack 0/2"},
		{"case a\nwith N: 3..5\nqp RC sq_psn $N\nstate RTS\n< WRITE_ONLY 0 len $N\n"
		 "expect ack 0/1\ncheck mem len $N*4-12 payload\n",
		 "fail 7:0: byte 5 of the area is 0x46, not 0x24 with N=5"},
		{"case a\nqp RC\nstate ERR\n", "fail 3:0: the state is RTS, not ERR"},
		{"case a\nqp RC\ncheck mem len 2 fill 5\n",
		 "fail 3:0: byte 1 of the area is 0x12, not 0x05"},
		{"case a\nqp RC\ncounter naks_sent 1\n", "fail 3:0: naks_sent is 0, not 1"},
		{"case a\nqp RC\ncounter naks_sent 1..3\n", "fail 3:0: naks_sent is 0, not 1..3"},
		{"case a\nqp RC\nreport sends 1\n", "fail 3:0: sends is 0, not 1"},
		{"case a\nqp RC\nreport mtu 256 sends 1..2\n", "fail 3:0: sends is 0, not 1..2"},
		{"case a\nqp RC\nreport wait RNR\n", "fail 3:0: wait is NOTHING, not RNR"},
		{"case a\nqp RC\nwhy PLACE\n", "fail 3:0: the reason is nothing, not PLACE"},
		{"case a\nqp RC\n< WRITE_LAST 0 len 8\nwhy PLACE psn 1\n",
		 "fail 4:0: psn is 0, not 1"},
		{"case a\nqp RC\n< WRITE_LAST 0 len 8\nwhy nothing\n",
		 "fail 4:0: the reason is PLACE, not nothing"},
		{"case a\nqp RC\ndeadline 1us\n", "fail 3:0: no timer runs"},
		{"case a\nqp RC state INIT\npost_send SEND\n",
		 "fail 3:0: the call returned -22 (Invalid argument), not 0"},
		{"case a\nwith N: 1 | 2\nwith M: 3 | 4\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack "
		 "0/{$N*$M-2}\n",
		 "fail 6:0: what came is not what is expected\n  expected: ack 0/4\n  came:     "
		 "ack 0/1 with N=2 M=3"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, expectation__met__passes)
{
	static const struct row rows[] = {
		{"case a\nqp RC\nexpect nothing\nstate RTS\ndeadline never\n", "ok"},
		{"case a # b\n\n# c\n\tqp\tRC # d\r\n", "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack */1\n", "ok"},
		{"case a\nqp RC state INIT\npost_send SEND errno EINVAL\n", "ok"},
		{"case a\nqp RC\nmodify SQD\nmodify SQD retry_cnt 3\nmodify RTS min_rnr_timer 2\n"
		 "modify RTS retry_cnt 3 errno EINVAL\n",
		 "ok"},
		{"case a\nqp RC\n< SEND_ONLY 0 len 8\nignore\ncounter drop_NO_RECV 1\ncounter "
		 "keep_slots_in_use 0\n",
		 "ok"},
		{"case a\nqp RC\nmw 3 errno EINVAL\npost_send BIND_MW errno EINVAL\nmw 2\nmw "
		 "free\nmw "
		 "free errno EINVAL\n",
		 "ok"},
		{"case a\nqp RC\nsrq size 4 errno EINVAL\nsrq new errno EINVAL\n", "ok"},
		{"case a\nqp XRC_RECV\nfor i 2..32 srq new\nsrq new errno EINVAL\n", "ok"},
		{"case a\npair RC\na: lose all *\na: lose mask 0\na: lose none\npost_send "
		 "RDMA_WRITE len 8\nrun\na: expect WRITE_ONLY 0 A; write 1\nb: expect ack 0/1\n",
		 "ok"},
		{"case a\npair RC\na: lose mask 5\nfor i 1..3 post_send RDMA_WRITE len 8\na: "
		 "expect "
		 "WRITE_ONLY 0 A lost; WRITE_ONLY 1 A; WRITE_ONLY 2 A lost\nb: ignore rest\n",
		 "ok"},
		{"case a\npair RC\npost_send RDMA_WRITE len 8\nb: until ack 0/1\na: expect "
		 "WRITE_ONLY 0 A\nb: expect ack 0/1\nrun\na: expect write 1\n",
		 "ok"},
		{"case a\npair RC loss 100\npost_send RDMA_WRITE len 8\nwait 9us\na: expect "
		 "WRITE_ONLY 0 A lost\na: ignore rest\n",
		 "ok"},
		{"case a\npair RC dup 100\npost_send RDMA_WRITE len 8\nrun\na: ignore\nb: expect "
		 "ack 0/1*\nb: counter duplicates 1\n",
		 "ok"},
		{"case a\npair RC\na: arm\npost_send RDMA_WRITE len 8\na: expect *\nb: "
		 "ignore\nrun\n"
		 "a: expect write 1; event CQ\nb: ignore\n",
		 "ok"},
		{"case a\nqp RC srq 1\nsrq limit 1\nexpect event SRQ_LIMIT_REACHED\nsrq destroy "
		 "errno "
		 "EBUSY\n",
		 "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8 rkey mem.rkey-1+1\ncheck mem bytes "
		 "01080f161d242b32\nexpect ack 0/1\nreg mem access REMOTE_READ\n< WRITE_ONLY 1 len "
		 "8 "
		 "rkey mem.rkey\nexpect drop ACCESS; nak 62 1/1; event QP_ACCESS_ERR; ERR\n",
		 "ok"},
		{"case a\nqp RC\nset mem+8 u64 7\ncheck mem+8 u64 3+2*2\n", "ok"},
		{"case a\nqp RC\nfor x 0..2\n for y 0..1\n  < WRITE_ONLY 2*x+y len 8\n  expect ack "
		 "{2*x+y}/{2*x+y+1}\n end\nend\nstate RTS\n",
		 "ok"},
		{"case a\nqp RC\nfor x 0..1 for y 0..2 < WRITE_ONLY 3*x+y len 8\nexpect ack 5/6\n",
		 "ok"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, alternatives__one_of_them__passes)
{
	static const struct row rows[] = {
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect nak * or ack 0/1\n", "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 0/{2-1} or nothing\n", "ok"},
		{"case a\nqp RC\nexpect ack 0/1 or ack 1/1 or nothing\n", "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 1/1 or nothing\n",
		 "fail 4:0: what came is not what is expected\n  expected: ack 1/1 or nothing\n  "
		 "came:     ack 0/1"},
		{"case a\nqp RC\nexpect or ack 0/1\n",
		 "error 3:15: a pattern is missing beside 'or'"},
		{"case a\nqp RC\nexpect ack 0/1 or or nothing\n",
		 "error 3:22: a pattern is missing beside 'or'"},
		{"case a\nqp RC\nexpect ack 0/1 or\n",
		 "error 3:16: a pattern is missing beside 'or'"},
		{"case a\nqp RC\nexpect 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or 9\n",
		 "error 3:48: more than 8 alternatives"},
	};

	check(rows, ARRAY_LEN(rows));
}

static const char *recorded(const char *text)
{
	static char out[256];
	struct scenario_result r = {0};
	struct scenario *s = scenario_read(text, strlen(text), "x", &r.error);
	size_t n = 0;

	scenario_run(s, 0, 0, &scenario_endpoint, NULL, &r);
	scenario_free(s);
	assert_int_equal(r.verdict, SCENARIO_PASS);
	for (unsigned i = 0; i < r.measures; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%u %s=%s%llu;", r.measure[i].kind,
				      r.measure[i].name, r.measure[i].word,
				      (unsigned long long)r.measure[i].number);
	return out;
}

TEST(language, bytes__are_the_payload_s_first_ones)
{
	static const struct row rows[] = {
		{"case a\nqp RC\n< WRITE_ONLY 0 bytes 0a0bff\nexpect ack 0/1\ncheck mem len 3 "
		 "bytes "
		 "0a0bff\ncheck mem+3 len 5 untouched\n",
		 "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 6 bytes 0a0b bytes 0c fill 9\nexpect ack 0/1\n"
		 "check mem len 6 bytes 0a0b0c090909\n",
		 "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 1 bytes 0a0b\nexpect ack 0/1\ncheck mem len 1 "
		 "fill 10\ncheck mem+1 len 1 untouched\n",
		 "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8 reserved 1 dscp 1\nexpect ack 0/1\n< "
		 "again\nexpect "
		 "ack 0/1\ncounter duplicates 1\n",
		 "ok"},
		{"case a\nqp RC\n< again\n", "error 3:3: no packet came before"},
		{"case a\nqp RC\n< WRITE_ONLY 0 bytes 0a0\n",
		 "error 3:22: '0a0': a byte is two of 0..9 and a..f"},
		{"case a\nqp RC\n< WRITE_ONLY 0\nexpect *\nlast bytes 0a\n",
		 "error 5:12: 'check last' compares the payload, not 'bytes'"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, measures__recorded_in_the_order_of_the_lines)
{
	assert_string_equal(
		recorded("case a\nqp RC\n< WRITE_ONLY 0 len 8\ntrait first nak nak * or good ack "
			 "0/1 or none nothing\nnote n 3*4\nfor i 1..2 note n i\n"),
		"0 first=good0;2 n=12;2 n=1;2 n=2;");
	assert_string_equal(recorded("case a\nqp RC retry_cnt 2 timeout 1\npost_send SEND len 4\n"
				     "expect SEND_ONLY 0 A\nwait 8192ns\nexpect *\n"
				     "interval again at_least 8192ns\nignore rest\n"),
			    "1 again=8192;");
	assert_string_equal(recorded("case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 0/1\n"
				     "latency answer at_least 0ns at_most 1us\n"),
			    "1 answer=0;");
}

TEST(language, measures__wrong_or_not_there)
{
	static const struct row rows[] = {
		{"case a\nqp RC\ntrait T x nothing\n",
		 "error 3:7: 'T' is not a name of up to 31 small letters, digits and '_'"},
		{"case a\nqp RC\ntrait t nothing\n",
		 "error 3:9: 'WORD PATTERN' is expected, not 'nothing'"},
		{"case a\nqp RC\ntrait t a ack * or b nak *\n",
		 "fail 3:0: what came is not what is expected\n  expected: ack * or nak *\n  came:"
		 "     nothing"},
		{"case a\nqp RC\nlatency x\n",
		 "fail 3:0: no packet came behind the last one that was sent"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 0/1\nlatency x at_least 1us\n",
		 "fail 5:0: x is 0 ns, less than 1000"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 0/1\n< WRITE_ONLY 0 len 8 "
		 "bad_icrc 1\nexpect drop ICRC\nlatency x\n",
		 "fail 7:0: no packet came behind the last one that was sent"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 0/1\ninterval x\n",
		 "fail 5:0: fewer than two packets came"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nwait 1us\n< WRITE_ONLY 1 len 8\nexpect "
		 "ack 0/1; ack 1/2\ninterval x at_most 999ns\n",
		 "fail 7:0: x is 1000 ns, more than 999"},
		{"case a\nqp RC\nfor i 0..128 note n i\n", "error 3:21: more than 128 measures"},
		{"case a\nqp RC\nanswer\n", "cannot 3:0: 'answer' is not possible here"},
		{"case a\nqp RC\nanswer repeats\n", "cannot 3:0: 'answer' is not possible here"},
		{"case a\nqp RC\nignore repeats\n",
		 "cannot 3:8: 'ignore repeats' is not possible here"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, conform__checked__and_read_without_carrying_out)
{
	static const struct row rows[] = {
		{"case a\nconform MUST 9.7.5.2 rc_pingpong\nqp RC\n", "ok"},
		{"case a\nconform MUSST 9.7 none\nqp RC\n",
		 "error 2:9: 'MUSST' is not a level; known: MUST, SHOULD, MEASURE"},
		{"case a\nconform MUST 9.7,\"x\" none\nqp RC\n",
		 "error 2:14: '9.7,\"x\"' is not a clause such as 9.7.5.2 or C9-105,CA17-24"},
		{"case a\nconform MUST 9.7 me\nqp RC\n",
		 "error 2:18: 'me' is not a peer; known: none, rc_pingpong, uc_pingpong, "
		 "ud_pingpong, rping, write_bw, read_bw, atomic_bw, conform_peer"},
		{"case a\nconform MUST 9.7 none break\nqp RC\n",
		 "error 2:23: 'break' is not expected here"},
	};
	static const char text[] = "case a\nqp RC\ncase b\n conform SHOULD C9-105,CA17-24 rping "
				   "may_break\nqp RC\ncase c\nconform MUST\n";
	struct scenario_conform c;
	struct scenario_error e;
	struct scenario *s = scenario_read(text, strlen(text), "x", &e);

	check(rows, ARRAY_LEN(rows));
	assert_int_equal(scenario_conform(s, 0, &c, &e), 0);
	assert_int_equal(scenario_conform(s, 1, &c, &e), 1);
	assert_int_equal(c.level, SCENARIO_SHOULD);
	assert_string_equal(c.clause, "C9-105,CA17-24");
	assert_int_equal(c.peer, SCENARIO_PEER_RPING);
	assert_true(c.may_break);
	assert_int_equal(scenario_conform(s, 2, &c, &e), -1);
	assert_int_equal(e.line, 7);
	scenario_free(s);
}

static int settle(void *world)
{
	(void)world;
	return 0;
}

TEST(language, queues__each_in_its_order__what_else_came_is_kept)
{
	static const struct row rows[] = {
		{"case a\npair RC\nfor i 1..3 b: post_recv len 8\nfor i 1..3 post_send SEND len i\n"
		 "b: recv_cq recv 1 len 1\nb: recv_cq recv 2 len 2; recv 3 len 3\na: send_cq send "
		 "1; send 2; send 3\n",
		 "ok"},
		{"case a\npair RC\na: post_recv len 8\nb: post_recv len 8\npost_send SEND len 4\n"
		 "b: post_send SEND len 5\na: send_cq send 1\na: recv_cq recv 1 len 5\nb: ignore "
		 "rest\n",
		 "ok"},
		{"case a\npair RC\na: post_recv len 8\nb: post_recv len 8\npost_send SEND len 4\n"
		 "b: post_send SEND len 5\na: send_cq send 1\nb: ignore rest\n",
		 "fail 8:0: the case ends, and this was not expected: recv 1 len 5"},
		{"case a\npair RC\na: send_cq send 1\n",
		 "fail 3:0: what came is not what is expected\n  expected: send 1\n  came:     "
		 "nothing"},
		{"case a\npair RC\ncq_event\n", "cannot 3:0: 'cq_event' is not possible here"},
		{"case a\npair RC area 262144\n",
		 "cannot 2:14: 'such a queue pair' is not possible here"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, table__rows_in_lines__each_is_a_round)
{
	static const struct row rows[] = {
		{"table t N M:\n | 1 2 # one\n | 3 4\ncase a\nwith t\nqp RC\ncheck mem len 1 "
		 "fill $N+$M+2\n",
		 "fail 7:0: byte 0 of the area is 0x05, not 0x09 with N=3 M=4"},
		{"table t W N:\n| - -\n| len 8\ncase a\nwith t\nwith M: 0..1\nqp RC\n< "
		 "WRITE_ONLY 0 $W $N\nexpect ack 0/1\nstate RT$N\n",
		 "error 10:7: 'RT-' is not a state; known: RESET, INIT, RTR, RTS, SQD, SQE, ERR, "
		 "destroyed with W=- N=- M=0"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, events_and_vendor_err__compared)
{
	static const struct row rows[] = {
		{"case a\npair RC\npost_send RDMA_WRITE len 8 rkey 1\nb: events QP_ACCESS_ERR\n"
		 "a: send_cq send 1 REM_ACCESS_ERR\na: vendor_err 0x62\nb: vendor_err 0\na: "
		 "expect ERR\nb: expect ERR\n",
		 "ok"},
		{"case a\npair RC\nb: events CQ_ERR\n",
		 "fail 3:0: what came is not what is expected\n  expected: CQ_ERR\n  came:     "
		 "nothing"},
		{"case a\npair RC\npost_send SEND len 8 lkey 1\na: send_cq send 1 LOC_PROT_ERR\n"
		 "a: vendor_err 0x101\n",
		 "fail 5:0: vendor_err is 0x105, not 0x101"},
	};

	check(rows, ARRAY_LEN(rows));
}

TEST(language, destroyed__as_if_it_were_not_there)
{
	static const struct row rows[] = {
		{"case a\npair RC timeout 8\nb: destroy_qp\nb: state destroyed\nb: post_send SEND "
		 "errno EINVAL\nb: post_recv errno EINVAL\nb: modify ERR errno EINVAL\nb: "
		 "destroy_qp errno EINVAL\npost_send SEND len 8\na: send_cq send 1 "
		 "RETRY_EXC_ERR\na: expect ERR\n",
		 "ok"},
		{"case a\npair RC\nb: destroy_qp\nb: counter in_flight_bytes 0\n",
		 "error 4:12: 'in_flight_bytes' is not a counter"},
		{"case a\npair RC\nb: destroy_qp\nb: report wait RNR\n",
		 "error 4:11: 'wait' is not a value here"},
		{"case a\nqp RC\ndestroy_qp errno EOPNOTSUPP\nmodify destroyed errno EINVAL\n",
		 "ok"},
	};

	check(rows, ARRAY_LEN(rows));
}

static char differences[1024];

static void note_difference(const struct scenario_result *r)
{
	const size_t n = strlen(differences);

	snprintf(differences + n, sizeof(differences) - n, "%u: %.200s\n", r->error.line,
		 r->error.text);
}

TEST(language, differences__each_is_told__the_round_goes_on_and_fails)
{
	static const char text[] =
		"case a\npair RC\nstate SQD\nfor i 1..2 a: state SQE\na: post_recv "
		"len 8\nb: post_recv len 8\na: modify ERR\nb: modify ERR\n";
	struct scenario_result r = {0};
	struct scenario *s = scenario_read(text, strlen(text), "x", &r.error);

	s->differs = note_difference;
	scenario_run(s, 0, 0, &scenario_endpoint, NULL, &r);
	scenario_free(s);
	assert_int_equal(r.verdict, SCENARIO_FAIL);
	assert_string_equal(
		differences,
		"3: the state is RTS, not SQD\n4: the state is RTS, not SQE\n"
		"8: the case ends, and this was not expected: recv 1 WR_FLUSH_ERR; ERR\n"
		"8: the case ends, and this was not expected: recv 1 WR_FLUSH_ERR; ERR\n");
}

TEST(language, let__stands_for_its_number_in_the_rest_of_the_case)
{
	static const struct row rows[] = {
		{"case a\nqp RC\nlet n path_mtu/4+1\nfor i 0..1 < WRITE_ONLY i len n\ncheck mem "
		 "len "
		 "65 payload\nexpect ack 1/2\n",
		 "ok"},
		{"case a\nqp RC\nlet n 7/0\n", "error 3:7: '7/0' is not a number"},
		{"case a\nqp RC\nlet N 7\n", "error 3:5: 'N' is not a name in small letters"},
		{"case a\nqp RC\nfor i 0..1 let n 7\n",
		 "error 3:12: 'let' stands outside of 'for', up to 8 times"},
		{"case a\nwith N: 1 | 2\nqp RC\nskip_if $N > 1\ncheck mem u64 $N\n",
		 "fail 5:0: byte 0 of the area is 0x05, not 0x01 with N=1"},
		{"case a\nqp RC\nskip_if 2 > 1\nfoo\n", "ok"},
		{"case a\nqp RC\nfor i 0..3 skip_if i > 2\nfoo\n", "ok"},
		{"case a\nqp RC\nskip_if 2 < 1\n", "error 3:9: '>' is expected"},
	};

	check(rows, ARRAY_LEN(rows));
}

/* What comes one after the other. */
static const char *const later[] = {"ack 0/1", "ack 1/2", "nak 60 2/2"};
static unsigned came;

static void *begin_again(const struct scenario_setup *s, int *error)
{
	came = 0;
	return scenario_endpoint.start(s, error);
}

static const char *next_effect(void *world, unsigned end, unsigned n)
{
	(void)world;
	(void)end;
	return n && came < ARRAY_LEN(later) ? later[came++] : "";
}

TEST(language, effects_that_come_later__may_match__are_waited_for)
{
	static const struct row rows[] = {
		{"case a\nqp RC\nexpect ack 0/1\nexpect ack 1/2\n", "ok"},
		{"case a\nqp RC\nexpect ack 1/2\n", "ok"},
		{"case a\nqp RC\nexpect cnp or nak 60 2/2\n", "ok"},
		{"case a\nqp RC\nexpect *1/2*\nexpect nak*\n", "ok"},
		{"case a\nqp RC\nexpect cnp\n",
		 "fail 3:0: what came is not what is expected\n  expected: cnp\n  came:     nak 60 "
		 "2/2"},
		{"case a\nqp RC\nexpect *7/7*\n", "fail 3:0: what came is not what is expected\n  "
						  "expected: *7/7*\n  came:     nak 60 "
						  "2/2"},
	};
	struct scenario_backend b = scenario_endpoint;

	b.settle = settle;
	b.start = begin_again;
	b.effects = next_effect;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(run_with(&b, rows[i].text), rows[i].want);
}

static void some_ip(void *world, struct scenario_ip *ip)
{
	(void)world;
	*ip = (struct scenario_ip){.sport = 0xc123, .tclass = 46 << 2 | 1, .ttl = 64};
}

TEST(language, last_packet__its_fields__are_numbers)
{
#define ACKED "case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 0/1\n"
	static const struct row rows[] = {
		{ACKED "let m last.migreq\nlast migreq m\nlast migreq last.migreq-m\n",
		 "fail 7:0: migreq is 0x1, not 0x0"},
		{ACKED "last sport 0xc123 ecn 1\nlast sport last.sport+1\n",
		 "fail 6:0: sport is 0xc123, not 0xc124"},
		{ACKED "for i last.dscp..46 last msn i-45\nfor i 64..last.ttl last msn i-64\n",
		 "fail 6:0: msn is 0x1, not 0x0"},
		{ACKED "note x last.bad_icrc\n", "error 5:8: 'last.bad_icrc' is not a number"},
		{"case a\nqp RC\nnote x last.psn\n", "error 3:8: 'last.psn' is not a number"},
	};
	static const struct row none[] = {
		{ACKED "last sport 1\n",
		 "error 5:12: 'sport' is not in the headers of what was sent"},
		{ACKED "note x last.ttl\n", "error 5:8: 'last.ttl' is not a number"},
	};
	struct scenario_backend b = scenario_endpoint;

	b.last_ip = some_ip;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(run_with(&b, rows[i].text), rows[i].want);
	check(none, ARRAY_LEN(none));
}

TEST(language, back_end_in_real_time__what_it_cannot_tell__is_left_out)
{
	static const struct row rows[] = {
		{"case a\nqp RC\n< WRITE_ONLY 1 len 8 bad_icrc 1\nexpect drop ICRC\n", "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 1 len 8\nexpect drop PSN; nak 60 0/0\n", "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 7/7; ack 0/1\n", "ok"},
		{"case a\nqp RC\npost_recv len 8\n< SEND_ONLY 0 len 8 se 1\nexpect ack 0/1; recv 1 "
		 "len 8 sol\n",
		 "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect nothing\n",
		 "fail 4:0: what came is not what is expected\n  expected: nothing\n  came:     "
		 "ack 0/1"},
		{"case a\npair RC\na: lose mask 0\na: lose none\nvendor_err 5\na: lose mask 1\n",
		 "cannot 6:14: 'lose' is not possible here"},
		{"case a\nqp RC\nfor i 0..2 a: counter naks_sent 0\n",
		 "cannot 3:0: 'counter' is not possible here"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect nak * or ack 7/7; ack 0/1\n", "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 1 len 8 bad_icrc 1\nexpect ack 0/1 or drop *\n",
		 "ok"},
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect drop X or nothing or ack 1/1\n",
		 "fail 4:0: what came is not what is expected\n  expected: nothing or nothing or "
		 "ack "
		 "1/1\n  came:     ack 0/1"},
		{"case a\nvirtual_time\nqp RC\n",
		 "cannot 2:0: 'virtual_time' is not possible here"},
		{"case a\npair RC loss 1\n", "cannot 2:14: 'a bad link' is not possible here"},
		{"case a\npair RC rnr_chance 1\n",
		 "cannot 2:20: 'a bad link' is not possible here"},
		{"case a\nqp RC goes_back 1\n",
		 "cannot 2:17: 'traits of another device' is not possible here"},
		{"case a\npair RC\na: lose *\n", "cannot 3:9: 'lose' is not possible here"},
	};
	struct scenario_backend b = scenario_endpoint;

	b.settle = settle;
	b.counter = NULL;
	b.lose = NULL;
	b.vendor_err = NULL;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(run_with(&b, rows[i].text), rows[i].want);
}

static uint8_t *no_memory(void *world, unsigned end, enum scenario_area area)
{
	(void)world;
	(void)end;
	(void)area;
	return NULL;
}

TEST(language, back_end_of_packets_only__the_rest_is_not_possible)
{
	static const struct row rows[] = {
		{"case a\nqp RC\n< WRITE_ONLY 0 len 8\nexpect ack 0/1\n", "ok"},
		{"case a\nqp RC\npost_send SEND len 8\n",
		 "cannot 3:0: 'post_send' is not possible here"},
		{"case a\nqp RC\npost_recv len 8\n",
		 "cannot 3:0: 'post_recv' is not possible here"},
		{"case a\nqp RC\nmodify ERR\n", "cannot 3:0: 'modify' is not possible here"},
		{"case a\nqp RC\nstate RTS\n", "cannot 3:0: 'state' is not possible here"},
		{"case a\nqp RC\nset mem fill 1\n",
		 "cannot 3:5: 'memory of the device' is not possible here"},
		{"case a\nqp RC\ncheck mem = recv\n",
		 "cannot 3:7: 'memory of the device' is not possible here"},
	};
	struct scenario_backend b = scenario_endpoint;

	b.post_send = b.post_recv = NULL;
	b.modify = NULL;
	b.state = NULL;
	b.memory = no_memory;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(run_with(&b, rows[i].text), rows[i].want);
}
