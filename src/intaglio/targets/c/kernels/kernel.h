/* A size or a buffer by its name in IG_FUNCTION_sizes or IG_FUNCTION_buffers. */
#include "ig_loop.h"
#define SIZE(name) size[__builtin_offsetof(IG_FUNCTION_sizes, name) / sizeof(int64_t)]
#define BUFFER(name) buffer[__builtin_offsetof(IG_FUNCTION_buffers, name) / sizeof(void *)]
