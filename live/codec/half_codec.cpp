#include <cstring>

#include "core/processor/vector_clones.hpp"
#include "live/codec/arithmetic.hpp"
#include "live/codec/codecs.hpp"

namespace orrery::live {
namespace {

using arithmetic::from_bf16;
using arithmetic::from_fp16;
using arithmetic::to_bf16;
using arithmetic::to_fp16;

void store_half(std::byte* code, std::size_t i, std::uint16_t half) {
  std::memcpy(code + 2 * i, &half, sizeof half);
}

std::uint16_t load_half(const std::byte* code, std::size_t i) {
  std::uint16_t half;
  std::memcpy(&half, code + 2 * i, sizeof half);
  return half;
}

ORRERY_VECTORS void write_bf16(std::span<const float> values, std::byte* code) {
  for (std::size_t i = 0; i < values.size(); ++i) store_half(code, i, to_bf16(values[i]));
}

ORRERY_VECTORS void write_fp16(std::span<const float> values, std::byte* code) {
  for (std::size_t i = 0; i < values.size(); ++i) store_half(code, i, to_fp16(values[i]));
}

ORRERY_VECTORS void read_bf16(const std::byte* code, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = from_bf16(load_half(code, i));
}

ORRERY_VECTORS void read_fp16(const std::byte* code, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = from_fp16(load_half(code, i));
}

// The residual becomes the values left out: one pass over memory.

ORRERY_VECTORS void write_rest_bf16(std::span<const float> values, float* residual,
                                    std::byte* code) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float wanted = residual[i] + values[i];
    const std::uint16_t half = to_bf16(wanted);
    store_half(code, i, half);
    residual[i] = arithmetic::residual_of(wanted, from_bf16(half));
  }
}

ORRERY_VECTORS void write_rest_fp16(std::span<const float> values, float* residual,
                                    std::byte* code) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float wanted = residual[i] + values[i];
    const std::uint16_t half = to_fp16(wanted);
    store_half(code, i, half);
    residual[i] = arithmetic::residual_of(wanted, from_fp16(half));
  }
}

}  // namespace

void HalfCodec::write(std::span<const float> values, std::vector<float>&,
                      std::span<std::byte> code) const {
  rule_.codec == Codec::bf16 ? write_bf16(values, code.data()) : write_fp16(values, code.data());
}

void HalfCodec::write_with_feedback(std::span<const float> values, CodecState& state,
                                    std::span<std::byte> code) const {
  float* const residual = state.residual.data();
  rule_.codec == Codec::bf16 ? write_rest_bf16(values, residual, code.data())
                             : write_rest_fp16(values, residual, code.data());
}

bool HalfCodec::read(std::span<const std::byte> code, std::span<float> values) const {
  rule_.codec == Codec::bf16 ? read_bf16(code.data(), values) : read_fp16(code.data(), values);
  return true;
}

}  // namespace orrery::live
