#include <cstring>

#include "live/codec/arithmetic.hpp"
#include "live/codec/codecs.hpp"

namespace orrery::live {
namespace {

template <class Convert>
void convert_all(std::span<const float> values, std::byte* code, Convert to) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = to(values[i]);
    std::memcpy(code + 2 * i, &half, sizeof half);
  }
}

template <class Convert>
void convert_back(const std::byte* code, std::span<float> values, Convert from) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, code + 2 * i, sizeof half);
    values[i] = from(half);
  }
}

}  // namespace

void HalfCodec::write(std::span<const float> values, std::vector<float>&,
                      std::span<std::byte> code) const {
  if (rule_.codec == Codec::bf16) {
    convert_all(values, code.data(), [](float value) { return arithmetic::to_bf16(value); });
  } else {
    convert_all(values, code.data(), [](float value) { return arithmetic::to_fp16(value); });
  }
}

bool HalfCodec::read(std::span<const std::byte> code, std::span<float> values) const {
  if (rule_.codec == Codec::bf16) {
    convert_back(code.data(), values, [](std::uint16_t c) { return arithmetic::from_bf16(c); });
  } else {
    convert_back(code.data(), values, [](std::uint16_t c) { return arithmetic::from_fp16(c); });
  }
  return true;
}

}  // namespace orrery::live
