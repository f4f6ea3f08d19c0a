/* What stands before every kernel: the names of C that NVRTC lacks, numbers of 16 bits, and how threads share work. */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define UINT64_C(number) number##ULL
#define INT64_C(number) number##LL
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#define __builtin_offsetof(type, member) ((uint64_t) & (((type *)0)->member)) /* older NVRTC has none */

/* C converts the number that gets a sign. */
static inline double copysign(int size, double sign)
{
    return copysign((double)size, sign);
}

static inline float f32_from_f16(uint16_t bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
static inline uint16_t f16_from_f32(float x)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
static inline float f32_from_bf16(uint16_t bits)
{
    return __int_as_float((int)bits << 16);
}
static inline uint16_t bf16_from_f32(float x)
{
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

/* A quotient of numbers that are not negative: 32 bits are divided much faster, where they hold both. */
static inline int64_t divided(int64_t number, int64_t by)
{
    return ((number | by) >> 32) == 0 ? (int64_t)((uint32_t)number / (uint32_t)by) : number / by;
}

/* A pointer to elements of any type, as C has it. */
struct AnyPointer {
    void *address;
    template <typename T>
    operator T *() const
    {
        return (T *)address;
    }
};

/* Elements that one instruction loads or stores. */
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
    T at[N];
};

/* The value that all threads of a group of G (1, a warp, or the whole block) get: those of all of them combined. */
template <int G, typename T, typename Combine>
static inline T combined(T value, Combine combine)
{
    if constexpr (G == 1) {
        return value;
    } else {
#pragma unroll
        for (int distance = 16; distance > 0; distance >>= 1)
            value = combine(value, (T)__shfl_xor_sync(0xffffffffu, value, distance));
        if constexpr (G == 32) {
            return value;
        } else {
            __shared__ alignas(8) unsigned char memory[(G / 32) * 8];
            T *const parts = (T *)memory;
            __syncthreads(); /* those of the reduction before this one were read */
            if (threadIdx.x % 32 == 0)
                parts[threadIdx.x / 32] = value;
            __syncthreads();
            T total = parts[0];
#pragma unroll
            for (int warp = 1; warp < G / 32; warp++)
                total = combine(total, parts[warp]);
            return total;
        }
    }
}
