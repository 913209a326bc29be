/* net.h - what all stores of a process share on the network: the transport, and what was learned
 * about servers (regions, tokens, which name node is active). Private to exp/store. */
#ifndef EBB_EXP_STORE_NET_H
#define EBB_EXP_STORE_NET_H

#include "exp/store/http.h"
#include "exp/store/store.h"

#define EXP_FACT_BYTES 4096

/* The transport, started by the first who asks. */
enum ebb_status exp_net_http(struct exp_store_net *net, struct exp_http **http,
                             struct ebb_error *err);
/* A fact that has not expired; false and "": nothing is known. */
bool exp_net_recall(struct exp_store_net *net, const char *key, char *buf, size_t size);
/* seconds <= 0: for as long as the process lives. An empty value is forgotten. */
void exp_net_learn(struct exp_store_net *net, const char *key, const char *value, double seconds);

#endif
