// The codecs of live/codec on a GPU, through the optional CUDA module: the same bytes. Values and
// codes lie in host memory here, as tests, measurements and the gRPC fabric have them. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "live/codec/codec.hpp"
#include "live/cuda/orrery_cuda.h"

namespace orrery::live {

class CudaCodecs {
 public:
  /// Null, with the reason, without the module, its kernels, a driver or a device.
  static std::unique_ptr<CudaCodecs> open(const std::string& module_path, std::string& reason);

  /// As GradientCodec's. Throw an environment Error where the device fails.
  void encode(const CodecRule& rule, std::span<const float> values, CodecState& state,
              std::span<std::byte> code) const;
  void decode(const CodecRule& rule, std::span<const std::byte> code,
              std::span<float> values) const;
  /// Measured on `count` values, best of several; bytes per second.
  OrreryCodecSpeed speed(const CodecRule& rule, std::size_t count) const;

 private:
  explicit CudaCodecs(const OrreryCudaTable& table) : table_(table) {}
  const OrreryCudaTable& table_;
};

/// The rule's sizes for `count` values, as the kernels take them.
OrreryCodec codec_sizes(const CodecRule& rule, std::size_t count);

}  // namespace orrery::live
