#include <algorithm>
#include <array>
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

/// int4 values as bytes, a few at a time: loops over bytes and loops over pairs of them each become
/// vector instructions, one that does both does not. Even.
constexpr std::size_t kAtOnce = 256;
using Bytes = std::array<std::int8_t, kAtOnce>;

/// Encodes at most kAtOnce values; the neighbour of an odd last value is 0.
void write_int4(const float* values, std::size_t count, float factor, std::byte* codes) {
  Bytes bytes;
  bytes[count - 1 + count % 2] = 0;
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::int8_t>(quantise(values[i], factor, 7));
  }
  for (std::size_t pair = 0; pair < (count + 1) / 2; ++pair) {
    const std::int32_t low = bytes[2 * pair] & 0xF, high = bytes[2 * pair + 1] & 0xF;
    codes[pair] = static_cast<std::byte>(low | high << 4);
  }
}

bool read_int4(const std::byte* codes, std::size_t count, float scale, float* values) {
  Bytes bytes;
  for (std::size_t pair = 0; pair < (count + 1) / 2; ++pair) {
    const auto both = static_cast<std::int8_t>(codes[pair]);
    bytes[2 * pair] = static_cast<std::int8_t>(static_cast<std::int8_t>(both << 4) >> 4);
    bytes[2 * pair + 1] = static_cast<std::int8_t>(both >> 4);
  }
  std::int8_t least = 0;
  for (std::size_t i = 0; i < count; ++i) {
    least = std::min(least, bytes[i]);
    values[i] = dequantise(bytes[i], scale);
  }
  return least >= -7 && (count % 2 == 0 || bytes[count] == 0);
}

/// Calls work(first value, number of values) for at most kAtOnce of a block's values at a time.
template <class Work>
void for_each_part(std::size_t first, std::size_t count, Work work) {
  for (std::size_t done = 0; done < count; done += kAtOnce) {
    work(first + done, std::min(kAtOnce, count - done));
  }
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
    const std::uint16_t scale =
        short_block_scale(largest_magnitude(values.data() + first, count), 7.0F);
    std::memcpy(code.data() + sizeof scale * block, &scale, sizeof scale);
    const float factor = block_factor(from_bf16(scale));
    for_each_part(first, count, [&](auto at, auto some) {
      write_int4(values.data() + at, some, factor, code.data() + codes_at + at / 2);
    });
  });
}

bool Int4Codec::read(std::span<const std::byte> code, std::span<float> values) const {
  const double block_size = parameter_of(rule_);
  const std::size_t codes_at = sizeof(std::uint16_t) * blocks_in(values.size(), block_size);
  bool possible = true;
  for_each_block(values.size(), block_size, [&](auto block, auto first, auto count) {
    std::uint16_t scale;
    std::memcpy(&scale, code.data() + sizeof scale * block, sizeof scale);
    for_each_part(first, count, [&](auto at, auto some) {
      possible &= read_int4(code.data() + codes_at + at / 2, some, from_bf16(scale),
                            values.data() + at);
    });
  });
  return possible;
}

}  // namespace orrery::live
