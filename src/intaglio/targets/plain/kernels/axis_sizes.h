    int64_t in0, int64_t out0, int64_t kernel0, int64_t stride0, int64_t dilation0, int64_t pad0
#if AXES > 1
    , int64_t in1, int64_t out1, int64_t kernel1, int64_t stride1, int64_t dilation1, int64_t pad1
#endif
#if AXES > 2
    , int64_t in2, int64_t out2, int64_t kernel2, int64_t stride2, int64_t dilation2, int64_t pad2
#endif
#if AXES > 3
    , int64_t in3, int64_t out3, int64_t kernel3, int64_t stride3, int64_t dilation3, int64_t pad3
#endif
