/* experiment.h - what the files about experiments share. Private to serve. */
#ifndef EBB_SERVE_EXPERIMENT_H
#define EBB_SERVE_EXPERIMENT_H

#include "serve/rest.h"

/* The experiment of the path, whole: the answer of most requests about one. */
enum ebb_status serve_answer_experiment(struct serve_rest *r);
/* rest_patch.c */
enum ebb_status serve_patch_experiment(struct serve_rest *r);

/* Its state; 404 when there is none. */
enum ebb_status serve_read_state(struct serve_rest *r, enum exp_state *state);
/* 409 when the change is illegal. */
enum ebb_status serve_change_state(struct serve_rest *r, enum exp_state from, enum exp_state to);
/* 409 and `what` unless it has ended. */
enum ebb_status serve_need_ended(struct serve_rest *r, enum exp_state state, const char *what);

#endif
