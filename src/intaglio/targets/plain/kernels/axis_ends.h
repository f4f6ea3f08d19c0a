    , int64_t end0
#if AXES > 1
    , int64_t end1
#endif
#if AXES > 2
    , int64_t end2
#endif
#if AXES > 3
    , int64_t end3
#endif
