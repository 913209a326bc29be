/* google.h - the token that requests to Google carry: Application Default Credentials. Private to
 * exp/store. */
#ifndef EBB_EXP_STORE_GOOGLE_H
#define EBB_EXP_STORE_GOOGLE_H

#include "exp/store/driver.h"

#define EXP_TOKEN 4096

/* From the file named by GOOGLE_APPLICATION_CREDENTIALS, else gcloud's, else the metadata server; kept
 * until 5 minutes before it ends. EBB_EINPUT: nobody has one; err says who was asked. */
enum ebb_status exp_google_token(struct exp_remote *r, char token[EXP_TOKEN],
                                 struct ebb_error *err);
void exp_google_forget(struct exp_remote *r); /* it does not work any more */

#endif
