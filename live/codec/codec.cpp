#include "live/codec/codec.hpp"

#include <cstring>

#include "core/error.hpp"
#include "live/codec/arithmetic.hpp"
#include "live/codec/codecs.hpp"

namespace orrery::live {

void GradientCodec::encode_values(std::span<const float> values, CodecState& state,
                                  std::span<std::byte> code) const {
  ensure(code.size() == encoded_size(values.size()), "a code has its exact size");
  if (!rule().error_feedback || rule().codec == Codec::none) {
    return write(values, state.basis, code);
  }
  state.residual.resize(values.size(), 0.0F);
  write_with_feedback(values, state, code);
}

/// The residual first becomes the values to send, then the values left out.
void GradientCodec::write_with_feedback(std::span<const float> values, CodecState& state,
                                        std::span<std::byte> code) const {
  for (std::size_t i = 0; i < values.size(); ++i) state.residual[i] += values[i];
  write(state.residual, state.basis, code);
  std::vector<float> decoded(values.size());
  ensure(read(code, decoded), "what was encoded can be decoded");
  for (std::size_t i = 0; i < values.size(); ++i) {
    state.residual[i] = arithmetic::residual_of(state.residual[i], decoded[i]);
  }
}

void GradientCodec::decode_values(std::span<const std::byte> code, std::span<float> values) const {
  const std::size_t size = encoded_size(values.size());
  if (code.size() != size) {
    throw Error(ErrorKind::bad_input, "a code of " + std::to_string(code.size()) +
                                          " bytes, where " + std::string(codec_name(rule().codec)) +
                                          " of " + std::to_string(values.size()) + " values has " +
                                          std::to_string(size));
  }
  if (read(code, values)) return;
  throw Error(ErrorKind::bad_input,
              "bytes that no " + std::string(codec_name(rule().codec)) + " code has");
}

void PlainCodec::write(std::span<const float> values, std::vector<float>&,
                       std::span<std::byte> code) const {
  if (!values.empty()) std::memcpy(code.data(), values.data(), code.size());
}

bool PlainCodec::read(std::span<const std::byte> code, std::span<float> values) const {
  if (!values.empty()) std::memcpy(values.data(), code.data(), code.size());
  return true;
}

std::unique_ptr<const GradientCodec> make_codec(const CodecRule& rule) {
  if (const std::string why = objection_to(rule); !why.empty()) {
    throw Error(ErrorKind::bad_input, why);
  }
  switch (rule.codec) {
    case Codec::bf16:
    case Codec::fp16: return std::make_unique<HalfCodec>(rule);
    case Codec::int8: return std::make_unique<Int8Codec>(rule);
    case Codec::int4: return std::make_unique<Int4Codec>(rule);
    case Codec::top_k: return std::make_unique<TopKCodec>(rule);
    case Codec::power_sgd: return std::make_unique<PowerSgdCodec>(rule);
    default: return std::make_unique<PlainCodec>(rule);
  }
}

}  // namespace orrery::live
