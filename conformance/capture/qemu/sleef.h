// The vector functions of SLEEF that at::vec calls, lane by lane with libm's functions.
// The sleef.h of torch declares those of the machine that torch was built for, and libsleef is inside libtorch.
#pragma once

#include <cmath>
#include <utility>

#if defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
typedef svfloat32_t sleef_floats __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
typedef svfloat64_t sleef_doubles __attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)));
#define SLEEF_FUNCTIONS(define, name, accuracy) \
  define(name, Sleef_##name##fx_##accuracy##sve, sleef_floats) define(name, Sleef_##name##dx_##accuracy##sve, sleef_doubles)
#define SLEEF_EXACT_FUNCTIONS(define, name) \
  define(name, Sleef_##name##fx_sve, sleef_floats) define(name, Sleef_##name##dx_sve, sleef_doubles)
#else
#if defined(__aarch64__)
#include <arm_neon.h>
typedef float32x4_t sleef_floats;
typedef float64x2_t sleef_doubles;
#else
typedef __vector float sleef_floats;
typedef __vector double sleef_doubles;
#endif
#if defined(__VSX__)
#define SLEEF_FUNCTIONS(define, name, accuracy)                                                                \
  define(name, Sleef_##name##f4_##accuracy, sleef_floats) define(name, Sleef_##name##d2_##accuracy, sleef_doubles) \
  define(name, Sleef_##name##f4_##accuracy##vsx, sleef_floats) define(name, Sleef_##name##d2_##accuracy##vsx, sleef_doubles)
#else
#define SLEEF_FUNCTIONS(define, name, accuracy) \
  define(name, Sleef_##name##f4_##accuracy, sleef_floats) define(name, Sleef_##name##d2_##accuracy, sleef_doubles)
#endif
#define SLEEF_EXACT_FUNCTIONS(define, name) \
  define(name, Sleef_##name##f4, sleef_floats) define(name, Sleef_##name##d2, sleef_doubles)
#endif

#define SLEEF_LANES(vector) (sizeof(vector) / sizeof(vector[0]))

#define SLEEF_UNARY(name, function, vectors)            \
  static inline vectors function(vectors x) {           \
    vectors result = x;                                 \
    for (unsigned lane = 0; lane < SLEEF_LANES(x); ++lane) \
      result[lane] = std::name(x[lane]);                \
    return result;                                      \
  }

#define SLEEF_BINARY(name, function, vectors)           \
  static inline vectors function(vectors x, vectors y) { \
    vectors result = x;                                 \
    for (unsigned lane = 0; lane < SLEEF_LANES(x); ++lane) \
      result[lane] = std::name(x[lane], y[lane]);       \
    return result;                                      \
  }

#define SLEEF_OF(name) SLEEF_FUNCTIONS(SLEEF_UNARY, name, u10)
SLEEF_OF(acos) SLEEF_OF(acosh) SLEEF_OF(asin) SLEEF_OF(asinh) SLEEF_OF(atan) SLEEF_OF(atanh) SLEEF_OF(cos)
SLEEF_OF(cosh) SLEEF_OF(erf) SLEEF_OF(exp) SLEEF_OF(exp2) SLEEF_OF(expm1) SLEEF_OF(lgamma) SLEEF_OF(log)
SLEEF_OF(log10) SLEEF_OF(log1p) SLEEF_OF(log2) SLEEF_OF(sin) SLEEF_OF(sinh) SLEEF_OF(tan) SLEEF_OF(tanh)
SLEEF_OF(tgamma)
SLEEF_FUNCTIONS(SLEEF_UNARY, erfc, u15)
SLEEF_FUNCTIONS(SLEEF_BINARY, atan2, u10)
SLEEF_FUNCTIONS(SLEEF_BINARY, pow, u10)
SLEEF_FUNCTIONS(SLEEF_BINARY, hypot, u05)
SLEEF_EXACT_FUNCTIONS(SLEEF_BINARY, copysign)
SLEEF_EXACT_FUNCTIONS(SLEEF_BINARY, fmod)
SLEEF_EXACT_FUNCTIONS(SLEEF_BINARY, nextafter)
