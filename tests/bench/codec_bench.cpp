// Gradient codecs on one thread: bytes of fp32 gradient a second, error feedback included.
#include <benchmark/benchmark.h>

#include "core/random.hpp"
#include "live/codec/codec.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kValues = 1 << 20;

std::vector<float> gradient() {
  Rng rng(1);
  std::vector<float> values(kValues);
  for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
  return values;
}

void codec_encode(benchmark::State& state) {
  const auto codec = make_codec({.codec = static_cast<Codec>(state.range(0))});
  const std::vector<float> values = gradient();
  std::vector<std::byte> code(codec->encoded_size(kValues));
  CodecState memory;
  for (auto _ : state) codec->encode_values(values, memory, code);
  state.SetBytesProcessed(state.iterations() * std::int64_t{4 * kValues});
  state.SetLabel(std::string(codec_name(codec->rule().codec)));
}
BENCHMARK(codec_encode)->DenseRange(1, 6)->Unit(benchmark::kMillisecond);

void codec_encode_bare(benchmark::State& state) {
  const auto codec =
      make_codec({.codec = static_cast<Codec>(state.range(0)), .error_feedback = false});
  const std::vector<float> values = gradient();
  std::vector<std::byte> code(codec->encoded_size(kValues));
  CodecState memory;
  for (auto _ : state) codec->encode_values(values, memory, code);
  state.SetBytesProcessed(state.iterations() * std::int64_t{4 * kValues});
  state.SetLabel(std::string(codec_name(codec->rule().codec)) + ", without error feedback");
}
BENCHMARK(codec_encode_bare)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

void codec_decode(benchmark::State& state) {
  const auto codec = make_codec({.codec = static_cast<Codec>(state.range(0))});
  std::vector<float> values = gradient();
  std::vector<std::byte> code(codec->encoded_size(kValues));
  CodecState memory;
  codec->encode_values(values, memory, code);
  for (auto _ : state) codec->decode_values(code, values);
  state.SetBytesProcessed(state.iterations() * std::int64_t{4 * kValues});
  state.SetLabel(std::string(codec_name(codec->rule().codec)));
}
BENCHMARK(codec_decode)->DenseRange(1, 6)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::live
