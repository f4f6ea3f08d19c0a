for (int64_t k0 = 0; k0 < kernel0; k0++) {
    const int64_t p0 = i0 * stride0 + k0 * dilation0 - pad0;
    if (p0 < 0 || p0 >= JOIN(EXTENT, 0))
        continue;
#if AXES > 1
for (int64_t k1 = 0; k1 < kernel1; k1++) {
    const int64_t p1 = i1 * stride1 + k1 * dilation1 - pad1;
    if (p1 < 0 || p1 >= JOIN(EXTENT, 1))
        continue;
#endif
#if AXES > 2
for (int64_t k2 = 0; k2 < kernel2; k2++) {
    const int64_t p2 = i2 * stride2 + k2 * dilation2 - pad2;
    if (p2 < 0 || p2 >= JOIN(EXTENT, 2))
        continue;
#endif
#if AXES > 3
for (int64_t k3 = 0; k3 < kernel3; k3++) {
    const int64_t p3 = i3 * stride3 + k3 * dilation3 - pad3;
    if (p3 < 0 || p3 >= JOIN(EXTENT, 3))
        continue;
#endif
#undef EXTENT
