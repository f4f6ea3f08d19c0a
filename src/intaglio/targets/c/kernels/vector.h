/* The elements that are computed, and a register full of them. */
#ifndef ELEMENT
#define ELEMENT float
#endif
#ifndef LANES
#define LANES IG_LANES
#endif
#define VECTOR IG_FUNCTION_vector
#define VECTOR_AT IG_FUNCTION_vector_at

typedef ELEMENT VECTOR __attribute__((vector_size(LANES * sizeof(ELEMENT))));
typedef ELEMENT VECTOR_AT __attribute__((vector_size(LANES * sizeof(ELEMENT)), aligned(sizeof(ELEMENT)), may_alias));
