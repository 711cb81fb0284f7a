// Arithmetic of the codecs, one source for CPU and GPU: a value's code has the same bits on both,
// because every operation is an integer operation or one correctly rounded fp32 operation that no
// compiler may fuse with its neighbour (the codecs are compiled with -ffp-contract=off and
// --fmad=false). Thread-safe. For example, int8 codes of a block with largest magnitude 2 have the
// scale 2/127, and the value 1 has the code 64.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define ORRERY_BOTH __host__ __device__ inline
#else
#define ORRERY_BOTH inline
#endif

namespace orrery::live::arithmetic {

constexpr std::uint32_t kMagnitude = 0x7FFFFFFFu;
/// values with this magnitude or a larger one are not finite
constexpr std::uint32_t kInfinity = 0x7F800000u;
constexpr std::uint32_t kQuietNan = 0x7FC00000u;
/// Magnitude below which (2^-100) a block is coded as zeros, because 1 / scale would not be finite.
/// Error feedback keeps the dropped values.
constexpr std::uint32_t kTiny = (127u - 100u) << 23;

/// Returns the 32 bits of a value.
ORRERY_BOTH std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
/// Returns the value with these 32 bits.
ORRERY_BOTH float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
/// Returns the bits of the absolute value: a larger value has larger bits, NaN the largest.
ORRERY_BOTH std::uint32_t magnitude(float value) { return bits_of(value) & kMagnitude; }

/// Returns the nearest bf16, ties to even, infinity beyond the range; NaN becomes the quiet NaN of
/// its sign.
ORRERY_BOTH std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = ((bits >> 16) & 0x8000u) | 0x7FC0u;
  return static_cast<std::uint16_t>((bits & kMagnitude) > kInfinity ? nan : rounded);
}
/// Returns the value of a bf16, exactly.
ORRERY_BOTH float from_bf16(std::uint16_t code) { return float_of(std::uint32_t{code} << 16); }

/// Returns the nearest fp16, ties to even. Finite values beyond the range become the largest finite
/// value (error feedback keeps the rest), infinities stay, NaN becomes the quiet NaN of its sign.
ORRERY_BOTH std::uint16_t to_fp16(float value) {
  const std::uint32_t bits = bits_of(value), size = bits & kMagnitude;
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  // Normal numbers: subtract the difference of the exponent biases, round the 13 surplus bits away.
  const std::uint32_t normal = (size - 0x38000000u + 0xFFFu + ((size >> 13) & 1u)) >> 13;
  // Subnormal numbers: an addition that leaves the code in the low bits of the sum, correctly
  // rounded.
  const std::uint32_t subnormal = bits_of(float_of(size) + 0.5f) - 0x3F000000u;
  std::uint32_t code = size < 0x38800000u ? subnormal : normal;
  code = size >= 0x477FE000u ? 0x7BFFu : code;
  code = size == kInfinity ? 0x7C00u : code;
  code = size > kInfinity ? 0x7E00u : code;
  return static_cast<std::uint16_t>(sign | code);
}
/// Returns the value of an fp16, exactly.
ORRERY_BOTH float from_fp16(std::uint16_t code) {
  const std::uint32_t sign = (code & 0x8000u) << 16, size = code & 0x7FFFu;
  const std::uint32_t normal = (size << 13) + 0x38000000u;
  const std::uint32_t subnormal = bits_of(float_of(0x3F000000u | size) - 0.5f);
  std::uint32_t bits = size < 0x400u ? subnormal : normal;
  bits = size >= 0x7C00u ? (size << 13) | kInfinity : bits;
  return float_of(sign | bits);
}

/// Returns the scale of a block of signed codes up to `limit`, from the block's largest
/// magnitude(): the magnitude / limit, rounded down where the largest code would overflow; 0 below
/// kTiny. A block that contains a NaN or an infinity has the scale NaN and decodes to NaN, so an
/// overflow is visible.
ORRERY_BOTH float block_scale(std::uint32_t largest, float limit) {
  if (largest >= kInfinity) return float_of(kQuietNan);
  if (largest < kTiny) return 0.0f;
  const float scale = float_of(largest) / limit;
  return magnitude(scale * limit) < kInfinity ? scale : float_of(bits_of(scale) - 1u);
}
/// Returns block_scale() as the nearest bf16, or the next smaller one where the largest code would
/// overflow.
ORRERY_BOTH std::uint16_t short_block_scale(std::uint32_t largest, float limit) {
  const std::uint16_t scale = to_bf16(block_scale(largest, limit));
  const bool overflows =
      largest < kInfinity && magnitude(from_bf16(scale) * limit) >= kInfinity;
  return overflows ? static_cast<std::uint16_t>(scale - 1u) : scale;
}
/// Returns 1 / scale, the factor on a value before rounding; 0 for a scale of 0 or NaN, with which
/// all codes are 0.
ORRERY_BOTH float block_factor(float scale) {
  const std::uint32_t size = magnitude(scale);
  return size >= kInfinity || size == 0 ? 0.0f : 1.0f / scale;
}
/// Returns round(value * factor) to nearest, ties to even, within +-limit; 0 for a factor of 0. The
/// product must be below 2^22 in magnitude, as that of a block's value and factor is. The addition
/// of 1.5 x 2^23 leaves the integer in the low bits of the sum.
ORRERY_BOTH std::int32_t quantise(float value, float factor, std::int32_t limit) {
  // A block that is not finite has the factor 0, and its values could still be NaN.
  const float kept = factor == 0.0f ? 0.0f : value;
  const float scaled = kept * factor;
  const auto bits = static_cast<std::int32_t>(bits_of(scaled + 12582912.0f));
  const std::int32_t code = bits - 0x4B400000;
  return code > limit ? limit : (code < -limit ? -limit : code);
}
/// Returns code x scale; NaN for a scale of NaN, even if the code is 0.
ORRERY_BOTH float dequantise(std::int32_t code, float scale) {
  return static_cast<float>(code) * scale;
}

/// Returns wanted - decoded, the part that error feedback carries to the next step; 0 if the
/// difference is not finite.
ORRERY_BOTH float residual_of(float wanted, float decoded) {
  const float rest = wanted - decoded;
  return magnitude(rest) >= kInfinity ? 0.0f : rest;
}

}  // namespace orrery::live::arithmetic
