for (int64_t JOIN(INDEX, 0) = 0; JOIN(INDEX, 0) < JOIN(EXTENT, 0); JOIN(INDEX, 0)++) {
#if AXES > 1
for (int64_t JOIN(INDEX, 1) = 0; JOIN(INDEX, 1) < JOIN(EXTENT, 1); JOIN(INDEX, 1)++) {
#endif
#if AXES > 2
for (int64_t JOIN(INDEX, 2) = 0; JOIN(INDEX, 2) < JOIN(EXTENT, 2); JOIN(INDEX, 2)++) {
#endif
#if AXES > 3
for (int64_t JOIN(INDEX, 3) = 0; JOIN(INDEX, 3) < JOIN(EXTENT, 3); JOIN(INDEX, 3)++) {
#endif
#undef INDEX
#undef EXTENT
