/* The channels that an output reads: all, or those of its group. */
#ifndef IS_GROUPED
#define IS_GROUPED 0
#endif
#if IS_GROUPED
#define DEPTH depth
#define FROM from
#else
#define DEPTH channels
#define FROM c
#endif
