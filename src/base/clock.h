/* clock.h - wall and CPU time for measuring. No decision ever reads it (design: the decision clock
 * is the sum of frozen op costs). */
#ifndef EBB_BASE_CLOCK_H
#define EBB_BASE_CLOCK_H

#include <stdint.h>

uint64_t ebb_clock_ns(void);     /* monotonic */
uint64_t ebb_clock_cpu_ns(void); /* CPU time of this process */

#endif
