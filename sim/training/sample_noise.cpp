#include "sim/training/sample_noise.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "core/processor/vector_clones.hpp"
#include "core/random.hpp"

// Compiled with -O3 -ffp-contract=off -fno-math-errno: the loop over a column becomes instructions
// on whole vectors, and every variant computes the same bits. The polynomials are those of fdlibm
// (e_log.c, k_sin.c, k_cos.c; Sun Microsystems 1993), whose errors are below one unit in the last
// place; the library's own functions work on one number at a time.
namespace orrery::sim {
namespace {

/// Natural logarithm of x, 2^-53 <= x <= 1.
inline double log_of(double x) {
  constexpr std::uint64_t kOne = std::bit_cast<std::uint64_t>(1.0);
  constexpr std::uint64_t kRootOfHalf = 0x3FE6A09E00000000ull, kMantissa = 0x000FFFFFFFFFFFFFull;
  const std::uint64_t shifted = std::bit_cast<std::uint64_t>(x) + (kOne - kRootOfHalf);
  // The exponent, 0 to 2^11, becomes a double by its place in the mantissa of 2^52.
  const double biased = std::bit_cast<double>(shifted >> 52 | std::bit_cast<std::uint64_t>(0x1p52));
  const double k = (biased - 0x1p52) - 1023;
  const double f = std::bit_cast<double>((shifted & kMantissa) + kRootOfHalf) - 1;
  const double s = f / (2 + f), z = s * s, w = z * z;
  const double even = w * (3.999999999940941908e-01 +
                           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd = z * (6.666666666666735130e-01 +
                          w * (2.857142874366239149e-01 +
                               w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half = 0.5 * f * f;
  return k * 6.93147180369123816490e-01 -
         ((half - (s * (half + (even + odd)) + k * 1.90821492927058770002e-10)) - f);
}

/// Cosine of 2 pi u, 0 <= u < 1.
inline double cos_of_turn(double u) {
  const double shifted = 4 * u + 0x1.8p52;  // its lowest bits are the nearest whole number, 0 to 4
  const double quarter = shifted - 0x1.8p52;
  const double x = 2 * std::numbers::pi * (u - quarter / 4), z = x * x;
  const double sine =
      x + x * z *
              (-1.66666666666666324348e-01 +
               z * (8.33333333332248946124e-03 +
                    z * (-1.98412698298579493134e-04 +
                         z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
                                                                z * 1.58969099521155010221e-10)))));
  const double cosine =
      1 -
      (0.5 * z -
       z * z *
           (4.16666666666666019037e-02 +
            z * (-1.38888888888741095749e-03 +
                 z * (2.48015872894767294178e-05 +
                      z * (-2.75573143513906633035e-07 +
                           z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
  // Selects and negates by masks: with branches, the loop would not become vectors.
  const std::uint64_t turns = std::bit_cast<std::uint64_t>(shifted);
  const std::uint64_t is_odd = 0 - (turns & 1), sign = ((turns + 1) & 2) << 62;
  const std::uint64_t size = (std::bit_cast<std::uint64_t>(sine) & is_odd) |
                             (std::bit_cast<std::uint64_t>(cosine) & ~is_odd);
  return std::bit_cast<double>(size ^ sign);
}

/// Returns the output of SplitMix64 for a state.
inline std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// Returns the top 53 bits as a number in [0, 1).
inline double fraction(std::uint64_t bits) {
  constexpr std::uint64_t kLow = std::bit_cast<std::uint64_t>(0x1p52);
  constexpr std::uint64_t kHigh = std::bit_cast<std::uint64_t>(0x1p84);
  const std::uint64_t top = bits >> 11;
  const double high = std::bit_cast<double>(top >> 32 | kHigh) - 0x1p84;
  return (high + (std::bit_cast<double>((top & 0xFFFFFFFFull) | kLow) - 0x1p52)) * 0x1.0p-53;
}

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;  // step of SplitMix64's state
constexpr std::uint64_t kPlaces = 0xD1B54A32D192ED03ull;  // factor that spreads places

std::uint64_t outer_of(std::uint64_t seed, std::uint64_t a) {
  return Rng(seed ^ (a * kGolden)).next();
}

constexpr std::size_t kBlock = 128;

/// Computes the numbers of at most kBlock places, the first of which is `place` / kPlaces, in the
/// stream that begins with `outer`. In three short loops, since the processor overlaps the
/// iterations of a short loop only.
inline __attribute__((always_inline)) void fill_block(std::uint64_t outer, std::uint64_t place,
                                                      std::uint64_t stride, std::size_t count,
                                                      double* __restrict out) {
  std::array<std::uint64_t, kBlock> radii, turns;
  for (std::size_t i = 0; i < count; ++i, place += stride) {
    const std::uint64_t state = outer ^ place;
    radii[i] = mix(state + kGolden);
    turns[i] = mix(state + 2 * kGolden);
  }
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = std::sqrt(-2.0 * log_of(1.0 - fraction(radii[i])));
  }
  for (std::size_t i = 0; i < count; ++i) out[i] *= cos_of_turn(fraction(turns[i]));
}

}  // namespace

ORRERY_VECTORS void fill_normals(std::uint64_t seed, std::uint64_t a, std::uint64_t first,
                                 std::uint64_t stride, std::span<double> out) {
  const std::uint64_t outer = outer_of(seed, a);
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, out.size() - begin);
    fill_block(outer, (first + begin * stride) * kPlaces, stride * kPlaces, count,
               out.data() + begin);
  }
}

ORRERY_VECTORS void add_errors(std::uint64_t seed, std::uint64_t a, std::uint64_t first,
                               std::uint64_t stride, double deviation, std::span<double> values) {
  const std::uint64_t outer = outer_of(seed, a);
  std::array<double, kBlock> normals;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - begin);
    fill_block(outer, (first + begin * stride) * kPlaces, stride * kPlaces, count, normals.data());
    double* const to = values.data() + begin;
    for (std::size_t i = 0; i < count; ++i) to[i] *= 1 + deviation * normals[i];
  }
}

}  // namespace orrery::sim
