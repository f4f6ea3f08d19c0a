    int64_t images, C, D, H, W, OD, OH, OW;
    int64_t KD, KH, KW;
    int64_t stride_d, stride_h, stride_w;
    int64_t dilation_d, dilation_h, dilation_w;
    int64_t pad_d, pad_h, pad_w;
