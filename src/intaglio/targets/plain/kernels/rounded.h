/* A number as near as an element can be to it. */
#define ROUNDED(x) JOIN(f32_from_, SUFFIX)(JOIN(SUFFIX, _from_f32)(x))
