// Gradient codecs: fp32 values to few bytes and back, as pure functions. What error feedback has to
// remember is the caller's (CodecState), so that a step that is not committed can be undone. Equal
// inputs give equal bytes on every machine and on the GPU (live/cuda/codec_kernels.cu). Codecs are
// immutable: any thread may use one; a state belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "traces/training/gradient_codec.hpp"

namespace orrery::live {

/// What one sender remembers of one bucket from call to call.
struct CodecState {
  std::vector<float> residual;  ///< what earlier codes left out; empty: nothing yet
  std::vector<float> basis;     ///< PowerSGD: the right factor of the last call
  bool operator==(const CodecState&) const = default;
};

class GradientCodec {
 public:
  virtual ~GradientCodec() = default;
  virtual const CodecRule& rule() const = 0;
  /// Exact number of bytes of the code of `count` values.
  std::size_t encoded_size(std::size_t count) const { return codec_bytes(rule(), count); }

  /// Writes the code of `values` (+ the residual, where the rule asks for error feedback) to
  /// `code`, which has encoded_size() bytes, and leaves in `state` what the code lacks.
  void encode(std::span<const float> values, CodecState& state, std::span<std::byte> code) const;
  /// Throws bad_input where `code` cannot come from encode(): wrong size, impossible contents.
  void decode(std::span<const std::byte> code, std::span<float> values) const;

 private:
  /// `basis` is CodecState's; only PowerSGD uses it.
  virtual void write(std::span<const float> values, std::vector<float>& basis,
                     std::span<std::byte> code) const = 0;
  /// `code` has the right size. Returns whether its contents are possible.
  virtual bool read(std::span<const std::byte> code, std::span<float> values) const = 0;
};

/// Throws bad_input if there is no such codec (objection_to()).
std::unique_ptr<const GradientCodec> make_codec(const CodecRule& rule);

}  // namespace orrery::live
