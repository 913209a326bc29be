/* schema.h - the keys of the experiment file, as rows of base/keys.h. Private to exp/config.
 *
 * Rows of a section stand together, in the order of the reference page and of the normalised form.
 * A key that differs between alternatives of a tagged section (searcher, storage, hyperparameter)
 * has one row per difference, told apart by `when`. To add a key: one row here, one field in
 * types.h; `EBB_GOLDEN_UPDATE=1 test_exp_config_golden` rewrites the page. A rule between several
 * keys goes to rules.c. */
#ifndef EBB_EXP_CONFIG_SCHEMA_H
#define EBB_EXP_CONFIG_SCHEMA_H

#include "base/keys.h"

extern const struct ebb_keys exp_schema;

/* Values with a shape of their own: compound.c, hparams.c. */
extern const struct ebb_key_type exp_type_labels, exp_type_entrypoint, exp_type_command,
    exp_type_image, exp_type_variables, exp_type_ports, exp_type_hparams, exp_type_mounts;

#endif
