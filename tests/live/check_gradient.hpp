// The numerical check of a model's gradient, and text to check it on.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "live/training/network.hpp"

namespace orrery::live {

inline std::vector<std::uint8_t> sample_bytes(std::size_t length) {
  const std::string words = "the quick brown fox jumps over the lazy dog; ";
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < length; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(words[i % words.size()]));
  }
  return bytes;
}

/// Central differences of the loss at up to 60 places of every tensor, against the gradient.
inline void expect_gradient_of_differences(Network<double>& model,
                                           const std::vector<std::uint8_t>& bytes,
                                           std::size_t sequences) {
  const Batch batch{.bytes = bytes, .sequences = sequences};
  model.zero_gradient();
  EXPECT_DOUBLE_EQ(model.accumulate_gradient(batch), model.loss(batch));
  Rng rng(4);
  std::size_t compared = 0, probes = 0;
  for (const Tensor& tensor : model.tensors()) {
    for (int probe = 0; probe < 60; ++probe, ++probes) {
      const std::size_t at = tensor.offset + rng.below(tensor.size());
      const double kept = model.parameters()[at];
      constexpr double kStep = 1e-5;
      model.parameters()[at] = kept + kStep;
      const double above = model.loss(batch);
      model.parameters()[at] = kept - kStep;
      const double below = model.loss(batch);
      model.parameters()[at] = kept;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(model.gradient()[at], expected, 1e-6 + 1e-5 * std::abs(expected))
          << tensor.name << " at " << at;
      compared += std::abs(expected) > 1e-6 ? 1 : 0;
    }
  }
  EXPECT_GT(compared, probes / 3);  // most probes hit a parameter that matters
}

}  // namespace orrery::live
