/* The multiplier of hashes. */
#define GOLDEN 0x9E3779B97F4A7C15u
