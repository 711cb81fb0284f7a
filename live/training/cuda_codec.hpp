// Codecs of live/codec on a GPU, through the optional CUDA module, with the same bytes. Values and
// codes are in host memory, as tests, measurements and the gRPC fabric need them. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "live/codec/codec.hpp"
#include "live/cuda/orrery_cuda.h"

namespace orrery::live {

/// Codecs of one GPU. Rules must be ones to which objection_to() does not object; not checked.
class CudaCodecs {
 public:
  /// Returns the codecs; null, with the reason, if the module, its kernels, a driver or a device is
  /// missing. `reason` has no meaning otherwise.
  static std::unique_ptr<CudaCodecs> open(const std::string& module_path, std::string& reason);

  /// Encodes like GradientCodec. Throws an environment Error if the device fails, an internal Error
  /// for a code of another size.
  void encode_values(const CodecRule& rule, std::span<const float> values, CodecState& state,
              std::span<std::byte> code) const;
  /// Decodes like GradientCodec, but does not check the contents of `code`, and throws an internal
  /// Error for a code of another size. Throws an environment Error if the device fails.
  void decode_values(const CodecRule& rule, std::span<const std::byte> code,
              std::span<float> values) const;
  /// Returns the speed on `count` values, best of several measurements, in bytes per second. Throws
  /// an environment Error if the device fails.
  OrreryCodecSpeed speed(const CodecRule& rule, std::size_t count) const;

 private:
  explicit CudaCodecs(const OrreryCudaTable& table) : table_(table) {}
  const OrreryCudaTable& table_;
};

/// Returns the sizes of the rule for `count` values, in the form of the kernels. The rule must be
/// one to which objection_to() does not object; not checked.
OrreryCodec codec_sizes(const CodecRule& rule, std::size_t count);

}  // namespace orrery::live
