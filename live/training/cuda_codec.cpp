#include "live/training/cuda_codec.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/codec/power_sgd.hpp"
#include "live/machine/cuda_module.hpp"

namespace orrery::live {
namespace {

void check(int status, const char* what) {
  if (status == 0) return;
  throw Error(ErrorKind::environment, fmt::format("{} on the GPU: CUDA error {}", what, status));
}

}  // namespace

OrreryCodec codec_sizes(const CodecRule& rule, std::size_t count) {
  OrreryCodec sizes{};
  sizes.codec = static_cast<std::uint32_t>(rule.codec);
  sizes.feedback = rule.error_feedback && rule.codec != Codec::none ? 1 : 0;
  sizes.count = count;
  sizes.code_size = codec_bytes(rule, count);
  if (rule.codec == Codec::int8 || rule.codec == Codec::int4) {
    sizes.block = static_cast<std::uint64_t>(parameter_of(rule));
  }
  if (rule.codec == Codec::top_k) sizes.kept = kept_values(rule, count);
  if (rule.codec == Codec::power_sgd) {
    const MatrixShape shape = matrix_shape(count);
    sizes.rows = shape.rows;
    sizes.columns = shape.columns;
    sizes.rank = factor_rank(rule, count);
  }
  return sizes;
}

std::unique_ptr<CudaCodecs> CudaCodecs::open(const std::string& module_path, std::string& reason) {
  const CudaProbe probe = probe_cuda(module_path);
  reason = probe.reason;
  if (!probe.module_loaded || probe.devices == 0) return nullptr;
  const OrreryCudaTable* table = load_cuda_table(module_path, reason);
  if (!table) return nullptr;
  if (!table->codec_encode) {
    reason = "the CUDA module was built without nvcc: it has no kernels";
    return nullptr;
  }
  return std::unique_ptr<CudaCodecs>(new CudaCodecs(*table));
}

void CudaCodecs::encode_values(const CodecRule& rule, std::span<const float> values,
                               CodecState& state, std::span<std::byte> code) const {
  const OrreryCodec sizes = codec_sizes(rule, values.size());
  ensure(code.size() == sizes.code_size, "a code has its exact size");
  if (sizes.feedback != 0) state.residual.resize(values.size(), 0.0F);
  if (sizes.rank > 0) refresh_basis(FactorShape(rule, values.size()), state.basis);
  check(table_.codec_encode(&sizes, values.data(), state.residual.data(), state.basis.data(),
                            code.data()),
        "encoding");
}

void CudaCodecs::decode_values(const CodecRule& rule, std::span<const std::byte> code,
                        std::span<float> values) const {
  const OrreryCodec sizes = codec_sizes(rule, values.size());
  ensure(code.size() == sizes.code_size, "a code has its exact size");
  check(table_.codec_decode(&sizes, code.data(), values.data()), "decoding");
}

OrreryCodecSpeed CudaCodecs::speed(const CodecRule& rule, std::size_t count) const {
  const OrreryCodec sizes = codec_sizes(rule, count);
  OrreryCodecSpeed speed{};
  check(table_.codec_speed(&sizes, &speed), "measuring a codec");
  return speed;
}

}  // namespace orrery::live
