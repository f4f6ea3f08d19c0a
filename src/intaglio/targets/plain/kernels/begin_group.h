for (int64_t c = 0; c < DEPTH; c++) {
#if IS_GROUPED
    const int64_t from = o / share * depth + c;
#endif
