/* aws.h - the keys that requests to S3 are signed with. Private to exp/store. */
#ifndef EBB_EXP_STORE_AWS_H
#define EBB_EXP_STORE_AWS_H

#include "exp/store/driver.h"

#define EXP_AWS_KEY 256
#define EXP_AWS_TOKEN 4096

struct exp_aws_keys {
    char access[EXP_AWS_KEY], secret[EXP_AWS_KEY];
    char token[EXP_AWS_TOKEN]; /* "" = none */
};

/* Those of the store; else of the environment; else of the profile file; else of the container's or
 * the machine's metadata service (tokens of version 2 first), which are remembered until 5 minutes
 * before they end. EBB_EINPUT: nobody has any; err says who was asked. EBB_EIO: a service that gave
 * some does not answer now. */
enum ebb_status exp_aws_keys(struct exp_remote *r, struct exp_aws_keys *keys,
                             struct ebb_error *err);
void exp_aws_forget(struct exp_remote *r); /* what services gave: it does not work any more */
/* Section `profile` of a file in AWS's ini form; false: not both keys are there. */
bool exp_aws_read_profile(const char *text, size_t length, const char *profile,
                          struct exp_aws_keys *keys);

#endif
