/* What activations are called. */
#define AFFINE 0
#define ELU 1
#define HARDSIGMOID 2
#define LEAKYRELU 3
#define RELU 4
#define SCALEDTANH 5
#define SIGMOID 6
#define SOFTPLUS 7
#define SOFTSIGN 8
#define TANH 9
#define THRESHOLDEDRELU 10

/* An activation with its parameters; its input is bounded where it has a clip. */
IG_INLINE VECTOR IG_FUNCTION_activate(VECTOR x, const int name, const ELEMENT first, const ELEMENT second,
                                      const int has_clip, const ELEMENT clip)
{
    const VECTOR zero = {0}, alpha = SET(first), beta = SET(second);
    if (has_clip)
        x = OF_KIND(ig_max_)(OF_KIND(ig_min_)(x, SET(clip)), SET(-clip));
    switch (name) {
    case AFFINE: return alpha * x + beta;
    case ELU: return OF_KIND(ig_select_)(OF_KIND(ig_ge_)(x, zero), x, alpha * OF_KIND(ig_expm1_)(x));
    case HARDSIGMOID: return OF_KIND(ig_max_)(OF_KIND(ig_min_)(alpha * x + beta, zero + 1), zero);
    case LEAKYRELU: return OF_KIND(ig_select_)(OF_KIND(ig_ge_)(x, zero), x, alpha * x);
    case RELU: return OF_KIND(ig_max_)(x, zero);
    case SCALEDTANH: return alpha * OF_KIND(ig_tanh_)(beta * x);
    case SIGMOID: return OF_KIND(ig_sigmoid_)(x);
    case SOFTPLUS: return OF_KIND(ig_softplus_)(x);
    case SOFTSIGN: return x / (zero + 1 + OF_KIND(ig_abs_)(x));
    case TANH: return OF_KIND(ig_tanh_)(x);
    case THRESHOLDEDRELU: return OF_KIND(ig_select_)(OF_KIND(ig_ge_)(x, alpha), x, zero);
    default: return x;
    }
}
