#include <algorithm>
#include <cstring>

#include "live/codec/arithmetic.hpp"
#include "live/codec/codecs.hpp"

namespace orrery::live {
namespace {

using namespace arithmetic;

std::uint32_t largest_magnitude(const float* values, std::size_t count) {
  std::int32_t largest = 0;  // magnitudes are below 2^31; signed ones compare in one instruction
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, static_cast<std::int32_t>(magnitude(values[i])));
  }
  return static_cast<std::uint32_t>(largest);
}

/// Calls work(block index, first value, number of values) for every block.
template <class Work>
void for_each_block(std::size_t count, double parameter, Work work) {
  const auto size = static_cast<std::size_t>(parameter);
  for (std::size_t first = 0, block = 0; first < count; first += size, ++block) {
    work(block, first, std::min(size, count - first));
  }
}

std::size_t blocks_in(std::size_t count, double parameter) {
  const auto size = static_cast<std::size_t>(parameter);
  return (count + size - 1) / size;
}

std::byte pack(std::int32_t low, std::int32_t high) {
  return static_cast<std::byte>((low & 0xF) | ((high & 0xF) << 4));
}

std::int32_t low_half(std::byte both) {
  return (static_cast<std::int32_t>(both) ^ 8) % 16 - 8;
}
std::int32_t high_half(std::byte both) {
  return ((static_cast<std::int32_t>(both) >> 4) ^ 8) - 8;
}

void write_int4(const float* values, std::size_t count, float factor, std::byte* codes) {
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    codes[i / 2] = pack(quantise(values[i], factor, 7), quantise(values[i + 1], factor, 7));
  }
  if (count % 2 != 0) codes[count / 2] = pack(quantise(values[count - 1], factor, 7), 0);
}

bool read_int4(const std::byte* codes, std::size_t count, float scale, float* values) {
  std::int32_t least = 0;
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    const std::int32_t low = low_half(codes[i / 2]), high = high_half(codes[i / 2]);
    least = std::min(least, std::min(low, high));
    values[i] = dequantise(low, scale);
    values[i + 1] = dequantise(high, scale);
  }
  if (count % 2 == 0) return least >= -7;
  const std::byte last = codes[count / 2];
  values[count - 1] = dequantise(low_half(last), scale);
  return std::min(least, low_half(last)) >= -7 && high_half(last) == 0;
}

}  // namespace

void Int8Codec::write(std::span<const float> values, std::vector<float>&,
                      std::span<std::byte> code) const {
  const double block_size = parameter_of(rule_);
  const std::size_t codes_at = sizeof(float) * blocks_in(values.size(), block_size);
  for_each_block(values.size(), block_size, [&](auto block, auto first, auto count) {
    const float* in = values.data() + first;
    const float scale = block_scale(largest_magnitude(in, count), 127.0F);
    const float factor = block_factor(scale);
    std::memcpy(code.data() + sizeof scale * block, &scale, sizeof scale);
    std::byte* out = code.data() + codes_at + first;
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = static_cast<std::byte>(quantise(in[i], factor, 127));
    }
  });
}

bool Int8Codec::read(std::span<const std::byte> code, std::span<float> values) const {
  const double block_size = parameter_of(rule_);
  const std::size_t codes_at = sizeof(float) * blocks_in(values.size(), block_size);
  std::int32_t least = 0;
  for_each_block(values.size(), block_size, [&](auto block, auto first, auto count) {
    float scale;
    std::memcpy(&scale, code.data() + sizeof scale * block, sizeof scale);
    const std::byte* in = code.data() + codes_at + first;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t value = static_cast<std::int8_t>(in[i]);
      least = std::min(least, value);
      values[first + i] = dequantise(value, scale);
    }
  });
  return least >= -127;
}

void Int4Codec::write(std::span<const float> values, std::vector<float>&,
                      std::span<std::byte> code) const {
  const double block_size = parameter_of(rule_);
  const std::size_t codes_at = sizeof(std::uint16_t) * blocks_in(values.size(), block_size);
  for_each_block(values.size(), block_size, [&](auto block, auto first, auto count) {
    const float* in = values.data() + first;
    const std::uint16_t scale = short_block_scale(largest_magnitude(in, count), 7.0F);
    std::memcpy(code.data() + sizeof scale * block, &scale, sizeof scale);
    write_int4(in, count, block_factor(from_bf16(scale)), code.data() + codes_at + first / 2);
  });
}

bool Int4Codec::read(std::span<const std::byte> code, std::span<float> values) const {
  const double block_size = parameter_of(rule_);
  const std::size_t codes_at = sizeof(std::uint16_t) * blocks_in(values.size(), block_size);
  bool possible = true;
  for_each_block(values.size(), block_size, [&](auto block, auto first, auto count) {
    std::uint16_t scale;
    std::memcpy(&scale, code.data() + sizeof scale * block, sizeof scale);
    possible &= read_int4(code.data() + codes_at + first / 2, count, from_bf16(scale),
                          values.data() + first);
  });
  return possible;
}

}  // namespace orrery::live
