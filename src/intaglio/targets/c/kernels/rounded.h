#define ROUNDED(x) JOIN(ig_round_, SUFFIX)(ig_set_f32(x))[0]
