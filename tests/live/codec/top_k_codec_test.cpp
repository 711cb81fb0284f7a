#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/codec/all_rules.hpp"

namespace orrery::live {
namespace {

std::vector<float> round_trip(double share, std::span<const float> values) {
  const auto codec = make_codec({.codec = Codec::top_k, .parameter = share});
  CodecState state;
  std::vector<float> decoded(values.size());
  codec->decode_values(encoded(*codec, values, state), decoded);
  return decoded;
}

TEST(TopKCodec, TheLargestMagnitudesSurviveExactlyAndTheRestIsZero) {
  const std::vector<float> values = gradient_like(1000, Rng(2));
  const std::vector<float> decoded = round_trip(0.05, values);
  float least_kept = std::numeric_limits<float>::max(), largest_dropped = 0;
  int kept = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (decoded[i] != 0) {
      ++kept;
      EXPECT_EQ(decoded[i], values[i]);
      least_kept = std::min(least_kept, std::abs(values[i]));
    } else {
      largest_dropped = std::max(largest_dropped, std::abs(values[i]));
    }
  }
  EXPECT_EQ(kept, 50);
  EXPECT_GE(least_kept, largest_dropped);
}

TEST(TopKCodec, OfEqualMagnitudesTheFirstSurvive) {
  const std::vector<float> values = {1, -2, 2, 2, -2, 1};
  EXPECT_EQ(round_trip(0.5, values), (std::vector<float>{0, -2, 2, 2, 0, 0}));
}

TEST(TopKCodec, IndicesThatRepeatOrLieBeyondTheEndAreRefused) {
  const auto codec = make_codec({.codec = Codec::top_k, .parameter = 0.5});
  std::vector<float> decoded(4);
  const auto decode = [&](std::uint8_t first, std::uint8_t second) {
    std::vector<std::byte> code(codec->encoded_size(4));
    code[0] = std::byte{first};
    code[4] = std::byte{second};
    codec->decode_values(code, decoded);
  };
  EXPECT_NO_THROW(decode(1, 3));
  EXPECT_THROW(decode(1, 1), Error);
  EXPECT_THROW(decode(2, 1), Error);
  EXPECT_THROW(decode(1, 4), Error);
}

}  // namespace
}  // namespace orrery::live
