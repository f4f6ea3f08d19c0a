/* Read in front of every unit that is compiled without optimisation.

   What is always inlined would be inlined there too, which doubles the work of the compiler; so it is called instead.
   The small functions of the headers are compiled with optimisation: gcc 12 fails inside on conversions between vectors
   without it. */
#define always_inline optimize("O1")
#include "ig_narrow.h"
#include "ig_wide.h"
#undef always_inline
#define always_inline unused

#ifdef HUNT_COVERAGE
/* The counters of a library are written when it is asked to, since the processes of the hunt end without that. */
void __gcov_dump(void);
void hunt_coverage_dump(void);
__attribute__((visibility("default"))) void hunt_coverage_dump(void) { __gcov_dump(); }
#endif
