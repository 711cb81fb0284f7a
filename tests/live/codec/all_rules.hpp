// Every codec with its default and with unusual parameters; gradients to try them on.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "live/codec/codec.hpp"

namespace orrery::live {

inline std::vector<CodecRule> all_rules() {
  std::vector<CodecRule> rules;
  for (const bool feedback : {true, false}) {
    const auto add = [&](Codec codec, double parameter) {
      rules.push_back({.codec = codec, .parameter = parameter, .error_feedback = feedback});
    };
    for (int codec = 0; codec <= static_cast<int>(Codec::power_sgd); ++codec) {
      add(static_cast<Codec>(codec), 0);
    }
    add(Codec::int8, 8);
    add(Codec::int4, 10);
    add(Codec::int8, 4098);
    add(Codec::int4, 4098);
    add(Codec::top_k, 1);
    add(Codec::power_sgd, 1);
  }
  return rules;
}

inline std::string name_of(const CodecRule& rule) {
  return std::string(codec_name(rule.codec)) + " " + std::to_string(parameter_of(rule)) +
         (rule.error_feedback ? " with feedback" : "");
}

/// Sizes around the blocks' and lanes' edges.
inline std::vector<std::size_t> odd_sizes() {
  return {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 255, 256, 257, 1000, 4097};
}

/// Normal values whose size varies over many orders of magnitude, some zero.
inline std::vector<float> gradient_like(std::size_t count, Rng rng) {
  std::vector<float> values(count);
  for (float& value : values) {
    const double size = std::exp(4 * rng.normal()) * 1e-3;
    value = rng.below(16) == 0 ? 0.0F : static_cast<float>(size * rng.normal());
  }
  return values;
}

inline std::vector<std::byte> encoded(const GradientCodec& codec, std::span<const float> values,
                                      CodecState& state) {
  std::vector<std::byte> code(codec.encoded_size(values.size()));
  codec.encode_values(values, state, code);
  return code;
}

}  // namespace orrery::live
