#include <algorithm>
#include <cstring>
#include <functional>

#include "live/codec/arithmetic.hpp"
#include "live/codec/codecs.hpp"

namespace orrery::live {
namespace {

/// The kept-th largest magnitude, and how many larger ones there are.
struct Threshold {
  std::uint32_t magnitude = 0;
  std::size_t larger = 0;
};

Threshold find_threshold(std::span<const float> values, std::size_t kept) {
  std::vector<std::uint32_t> sizes(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sizes[i] = arithmetic::magnitude(values[i]);
  const auto last = sizes.begin() + static_cast<std::ptrdiff_t>(kept) - 1;
  std::nth_element(sizes.begin(), last, sizes.end(), std::greater<>());
  const std::uint32_t least = *last;
  const auto larger = std::count_if(sizes.begin(), last, [least](auto s) { return s > least; });
  return {.magnitude = least, .larger = static_cast<std::size_t>(larger)};
}

}  // namespace

void TopKCodec::write(std::span<const float> values, std::vector<float>&,
                      std::span<std::byte> code) const {
  const std::size_t kept = kept_values(rule_, values.size());
  if (kept == 0) return;
  const Threshold threshold = find_threshold(values, kept);
  std::size_t equal_ones = kept - threshold.larger;
  std::byte* indices = code.data();
  std::byte* kept_bits = code.data() + sizeof(std::uint32_t) * kept;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t size = arithmetic::magnitude(values[i]);
    if (size < threshold.magnitude) continue;
    if (size == threshold.magnitude) {
      if (equal_ones == 0) continue;
      --equal_ones;
    }
    const auto index = static_cast<std::uint32_t>(i);
    std::memcpy(indices, &index, sizeof index);
    std::memcpy(kept_bits, &values[i], sizeof(float));
    indices += sizeof index;
    kept_bits += sizeof(float);
  }
}

bool TopKCodec::read(std::span<const std::byte> code, std::span<float> values) const {
  const std::size_t kept = kept_values(rule_, values.size());
  std::fill(values.begin(), values.end(), 0.0F);
  std::uint64_t least = 0;  // the next index is at least this
  for (std::size_t i = 0; i < kept; ++i) {
    std::uint32_t index;
    std::memcpy(&index, code.data() + sizeof index * i, sizeof index);
    if (index < least || index >= values.size()) return false;
    least = std::uint64_t{index} + 1;
    std::memcpy(&values[index], code.data() + sizeof index * kept + sizeof(float) * i,
                sizeof(float));
  }
  return true;
}

}  // namespace orrery::live
