// Implementations of the codecs; callers use make_codec() of codec.hpp.
#pragma once

#include "live/codec/codec.hpp"

namespace orrery::live {

/// Base of the codecs: holds the rule.
class CodecOfRule : public GradientCodec {
 public:
  /// Copies `rule`, which must be valid (objection_to()); not checked.
  explicit CodecOfRule(const CodecRule& rule) : rule_(rule) {}
  const CodecRule& rule() const override { return rule_; }

 protected:
  const CodecRule rule_;
};

/// Codec without compression: fp32.
class PlainCodec : public CodecOfRule {
  using CodecOfRule::CodecOfRule;
  void write(std::span<const float> values, std::vector<float>&,
             std::span<std::byte> code) const override;
  bool read(std::span<const std::byte> code, std::span<float> values) const override;
};

/// Codec bf16 or fp16: two bytes a value, little-endian.
class HalfCodec : public CodecOfRule {
  using CodecOfRule::CodecOfRule;
  void write(std::span<const float> values, std::vector<float>&,
             std::span<std::byte> code) const override;
  void write_with_feedback(std::span<const float> values, CodecState& state,
                           std::span<std::byte> code) const override;
  bool read(std::span<const std::byte> code, std::span<float> values) const override;
};

/// Codec int8: all scales (fp32), then one signed byte a value.
class Int8Codec : public CodecOfRule {
  using CodecOfRule::CodecOfRule;
  void write(std::span<const float> values, std::vector<float>&,
             std::span<std::byte> code) const override;
  bool read(std::span<const std::byte> code, std::span<float> values) const override;
};

/// Codec int4: all scales (bf16), then two values a byte, the first in the low half.
class Int4Codec : public CodecOfRule {
  using CodecOfRule::CodecOfRule;
  void write(std::span<const float> values, std::vector<float>&,
             std::span<std::byte> code) const override;
  bool read(std::span<const std::byte> code, std::span<float> values) const override;
};

/// Codec top_k: the indices (uint32, ascending), then the values (fp32) of the largest magnitudes;
/// of equal ones the first. NaN counts as larger than infinity.
class TopKCodec : public CodecOfRule {
  using CodecOfRule::CodecOfRule;
  void write(std::span<const float> values, std::vector<float>&,
             std::span<std::byte> code) const override;
  bool read(std::span<const std::byte> code, std::span<float> values) const override;
};

/// Codec power_sgd: left factor, then right factor, both fp32 and row-major (power_sgd.hpp).
class PowerSgdCodec : public CodecOfRule {
  using CodecOfRule::CodecOfRule;
  void write(std::span<const float> values, std::vector<float>& basis,
             std::span<std::byte> code) const override;
  bool read(std::span<const std::byte> code, std::span<float> values) const override;
};

}  // namespace orrery::live
