/* exp.h - experiments: configuration, search, scheduling, sequencing, retention.
 *
 * The only header of this folder that other folders include. Each part has a public header of its
 * own, listed here. Everything in exp decides and records; nothing in it trains. */
#ifndef EBB_EXP_EXP_H
#define EBB_EXP_EXP_H

#include "exp/config/config.h"
#include "exp/master/master.h"
#include "exp/retention/retention.h"
#include "exp/sched/sched.h"
#include "exp/search/search.h"
#include "exp/sequence/sequence.h"
#include "exp/store/store.h"

#endif
