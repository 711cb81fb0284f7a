#include <benchmark/benchmark.h>

#include <fstream>
#include <iterator>
#include <string>

#include "core/random.hpp"
#include "core/sha256.hpp"
#include "core/units.hpp"
#include "policies/parameters.pb.h"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

void quantity(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(parse_quantity("989 TFLOP/s", Dimension::flop_rate));
  }
}
BENCHMARK(quantity);

void rng_normal(benchmark::State& state) {
  Rng rng(1);
  for (auto _ : state) benchmark::DoNotOptimize(rng.normal());
}
BENCHMARK(rng_normal);

void sha256(benchmark::State& state) {
  const std::string bytes(static_cast<std::size_t>(state.range(0)), 'x');
  for (auto _ : state) benchmark::DoNotOptimize(sha256_hex(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(sha256)->Arg(64)->Arg(1 << 20);

void load_scenario(benchmark::State& state, const char* name) {
  const std::string path = std::string(ORRERY_SOURCE_DIR "/examples/") + name;
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty()) {
    state.SkipWithError("cannot be read");
    return;
  }
  PredictiveRebalanceParameters::descriptor();  // links the policies' parameters in
  for (auto _ : state) benchmark::DoNotOptimize(parse_scenario(text, path, {}));
}
BENCHMARK_CAPTURE(load_scenario, straggler, "straggler-4-ranks.yaml");
BENCHMARK_CAPTURE(load_scenario, main_job, "llama3-70b-512-h100.yaml");

}  // namespace
}  // namespace orrery
