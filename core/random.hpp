// Source of all randomness: a seeded, splittable generator whose stream depends on this file alone
// (no standard-library distribution, whose output differs between implementations). Not
// thread-safe; give each user its own generator by split_stream().
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace orrery {

/// Generator SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, passes BigCrush. For example,
/// Rng(1).split_stream("noise") always gives the same numbers.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  /// Returns the next 64 random bits.
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// Returns a number uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Returns a number uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// Returns a standard normal number, by Box-Muller (the second number of the pair is dropped: no
  /// hidden state).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  /// Returns a generator for the purpose `name`. Its stream depends on this generator's state and
  /// on `name`; this generator's state stays unchanged, so that a second call with the same name
  /// returns the same stream.
  Rng split_stream(std::string_view name) const {
    std::uint64_t hash = 0xCBF29CE484222325ull ^ state_;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
    Rng child(hash);
    child.next();
    return child;
  }
  /// Returns the state: Rng(state()) continues the stream.
  std::uint64_t state() const { return state_; }

 private:
  std::uint64_t state_;
};

}  // namespace orrery
