/* xml.h - the little of XML that object stores answer in: elements by name, nothing else. Private to
 * exp/store. Bytes need not be terminated, well-formed or text (H1). */
#ifndef EBB_EXP_STORE_XML_H
#define EBB_EXP_STORE_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct exp_xml {
    const char *at, *end;
};

/* What stands in the next element of that name at any depth; `x` moves behind it. false: none. */
bool exp_xml_next(struct exp_xml *x, const char *name, struct exp_xml *inner);
/* Text of the first such element, entities replaced, cut to size; false and "": none. */
bool exp_xml_text(struct exp_xml x, const char *name, char *buf, size_t size);
void exp_xml_escape(struct ebb_str *out, const char *text);

#endif
