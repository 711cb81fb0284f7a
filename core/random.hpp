// The one source of randomness: a seeded, splittable generator whose stream is fixed by this file
// alone (no standard-library distribution, whose output differs between implementations).
// Not thread-safe; give each user its own by split().
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace orrery {

/// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, passes BigCrush.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// Standard normal, by Box-Muller (one of the pair is thrown away: no hidden state).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  /// A generator for the purpose `name`, independent of how often this one was used.
  Rng split(std::string_view name) const {
    std::uint64_t hash = 0xCBF29CE484222325ull ^ state_;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
    Rng child(hash);
    child.next();
    return child;
  }
  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_;
};

}  // namespace orrery
