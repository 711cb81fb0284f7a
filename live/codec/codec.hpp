// Gradient codecs: fp32 values to few bytes and back, as pure functions. The caller owns the memory
// of error feedback (CodecState), so a step that is not committed can be undone. Equal inputs give
// equal bytes on every machine and on the GPU (live/cuda/codec_kernels.cu). Codecs are immutable
// and may be used by any thread; a state belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "traces/workload/gradient_codec.hpp"

namespace orrery::live {

/// Memory of one sender for one bucket, from call to call.
struct CodecState {
  std::vector<float> residual;  ///< values left out by earlier codes; empty: none yet
  std::vector<float> basis;     ///< PowerSGD: right factor of the previous call
  bool operator==(const CodecState&) const = default;
};

/// Encoder and decoder of one compression rule. For example, int8 encodes {0.5, -1} as the scale
/// 1/127 and the codes 64, -127.
class GradientCodec {
 public:
  virtual ~GradientCodec() = default;
  /// Returns the rule; valid as long as this object.
  virtual const CodecRule& rule() const = 0;
  /// Returns the exact number of bytes of the code of `count` values.
  std::size_t encoded_size(std::size_t count) const { return codec_bytes(rule(), count); }

  /// Encodes `values` (plus the residual, if the rule has error feedback) into `code`, which has
  /// encoded_size() bytes, and stores the values left out in `state`, and PowerSGD's new basis.
  /// Without error feedback, and for codec `none`, the residual is neither used nor changed.
  /// `state` must be new or come from calls with as many values. Throws an internal Error for a
  /// code of another size.
  void encode_values(std::span<const float> values, CodecState& state,
                     std::span<std::byte> code) const;
  /// Decodes `code` into `values`. Throws bad_input for a code of the wrong size for the number of
  /// `values`, for numbers of int8 and int4 outside of their range, and for indices of top_k that
  /// are too large or not ascending; `values` may be overwritten then. Other contents are not
  /// checked.
  void decode_values(std::span<const std::byte> code, std::span<float> values) const;

 private:
  /// Encodes values; `basis` is CodecState's and used by PowerSGD only.
  virtual void write(std::span<const float> values, std::vector<float>& basis,
                     std::span<std::byte> code) const = 0;
  /// Encodes the values plus `state.residual`, which has their size, and stores the values left out
  /// in it. A codec of single values overrides it with one pass over memory; the results are equal.
  virtual void write_with_feedback(std::span<const float> values, CodecState& state,
                                   std::span<std::byte> code) const;
  /// Decodes `code`, which has the right size. Returns false if its contents are impossible.
  virtual bool read(std::span<const std::byte> code, std::span<float> values) const = 0;
};

/// Returns the codec of a rule. Throws bad_input if none exists (objection_to()).
std::unique_ptr<const GradientCodec> make_codec(const CodecRule& rule);

}  // namespace orrery::live
