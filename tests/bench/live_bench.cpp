// Cost of a reproducible sum: four ranks in this process over gRPC streams, fp32 against whole
// numbers, and the conversion on each rank.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "live/fabric/grpc_fabric.hpp"
#include "live/run/files/run_folder.hpp"
#include "live/training/fixed_point.hpp"

namespace orrery::live {
namespace {

constexpr std::uint32_t kRanks = 4;

template <class Sum>
void sum_over_ranks(benchmark::State& state, const Sum& sum) {
  const RunFolder folder;
  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<GrpcFabric>> fabrics;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    addresses.push_back(fmt::format("unix:{}/{}", folder.path(), rank));
    fabrics.push_back(
        std::make_unique<GrpcFabric>(rank, kRanks, addresses.back(), Secrets{.token = "t"}));
  }
  for (auto& fabric : fabrics) fabric->connect_next(addresses);
  const auto count = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    std::vector<std::jthread> others;
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
      others.emplace_back([&, rank] { sum(*fabrics[rank], count); });
    }
    sum(*fabrics[0], count);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void all_reduce_fp32(benchmark::State& state) {
  sum_over_ranks(state, [](Fabric& fabric, std::size_t count) {
    std::vector<float> gradient(count, 0.5F);
    fabric.all_reduce(gradient);
  });
}
BENCHMARK(all_reduce_fp32)->Arg(1 << 16)->Arg(1 << 20)->UseRealTime();

void all_reduce_reproducible(benchmark::State& state) {
  sum_over_ranks(state, [](Fabric& fabric, std::size_t count) {
    std::vector<float> gradient(count, 0.5F);
    FixedPointSum sum(count);
    sum.add(gradient);
    fabric.all_reduce_integers(sum.units());
    sum.store(gradient);
  });
}
BENCHMARK(all_reduce_reproducible)->Arg(1 << 16)->Arg(1 << 20)->UseRealTime();

void fixed_point_add(benchmark::State& state) {
  const std::vector<float> gradient(static_cast<std::size_t>(state.range(0)), 0.5F);
  FixedPointSum sum(gradient.size());
  for (auto _ : state) {
    sum.clear();
    sum.add(gradient);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(fixed_point_add)->Arg(1 << 20);

}  // namespace
}  // namespace orrery::live
