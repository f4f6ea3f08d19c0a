/* Which share of the elements is dropped: none unless it is trained, half where no share is given. */
#include "read.h"
#ifndef HAS_MODE
#define HAS_MODE 1
#endif
#ifndef HAS_RATIO
#define HAS_RATIO 1
#endif
#ifndef RATIO
#define RATIO float
#endif
#ifndef READ_RATIO
#define READ_RATIO *
#endif
#if HAS_MODE && HAS_RATIO
#define SHARE (*(const uint8_t *)BUFFER(mode) ? (double)READ_RATIO((const RATIO *)BUFFER(ratio)) : 0)
#elif HAS_MODE
#define SHARE (*(const uint8_t *)BUFFER(mode) ? 0.5 : 0)
#else
#define SHARE 0
#endif
