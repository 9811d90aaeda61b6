/* SPDX-License-Identifier: BSD-2-Clause */
/* Words of levels, peers and verdicts. */
#include "conform/conform.h"

#define X(NAME, word) [SCENARIO_##NAME] = #word,
const char *const conform_level_text[CONFORM_LEVELS] = {SCENARIO_LEVELS(X)};
#undef X
#define X(NAME, text) [CONFORM_##NAME] = text,
const char *const conform_verdict_text[CONFORM_VERDICT_COUNT] = {CONFORM_VERDICTS(X)};
#undef X
#define X(NAME, word) [SCENARIO_PEER_##NAME] = #word,
const char *const conform_peer_text[CONFORM_PEER_COUNT] = {SCENARIO_PEERS(X)};
#undef X
#define X(NAME, port, command) [SCENARIO_PEER_##NAME] = command,
const char *const conform_peer_command[CONFORM_PEER_COUNT] = {CONFORM_PEERS(X)};
#undef X
