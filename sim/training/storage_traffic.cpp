#include "sim/training/storage_traffic.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "core/units.hpp"
#include "sim/training/job_in_world.hpp"
#include "sim/training/training_state.hpp"

namespace orrery::sim {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();
/// Rates of reads in a step in which a checkpoint ends are rounded to this many values in a power
/// of e, so that such steps are found in the cache again.
constexpr double kSteps = 256;

/// Equal flows on one link: their number, and the rate that each wants at most.
struct EqualFlows {
  double number;
  double wanted;
};

/// Returns the rate that no flow of a link exceeds if the flows share it max-min fairly; unlimited
/// if all flows get the rates that they want.
double fair_level(double bandwidth, std::vector<EqualFlows> flows) {
  std::sort(flows.begin(), flows.end(), [](const EqualFlows& a, const EqualFlows& b) {
    return a.wanted < b.wanted;
  });
  double number = 0;
  for (const EqualFlows& each : flows) number += each.number;
  for (const EqualFlows& each : flows) {
    if (each.wanted * number >= bandwidth) return bandwidth / number;
    bandwidth -= each.wanted * each.number;
    number -= each.number;
  }
  return kUnlimited;
}

/// Returns the rates that one node's link leaves to its flows.
StorageRates rates_of_node(double bandwidth, const StorageNodes& node, StorageRates wanted) {
  std::vector<EqualFlows> flows;
  if (node.writers > 0 && wanted.write > 0) flows.push_back({1.0 * node.writers, wanted.write});
  if (node.readers > 0 && wanted.read > 0) flows.push_back({1.0 * node.readers, wanted.read});
  const double level = fair_level(bandwidth, std::move(flows));
  return {node.writers > 0 ? std::min(wanted.write, level) : 0,
          node.readers > 0 ? std::min(wanted.read, level) : 0};
}

/// Returns the number of processes of a rank that read beside each other.
double readers_beside(const Prefetch& set, const Input& input) {
  const std::uint32_t workers = set.workers > 0 ? set.workers : input.workers();
  const std::uint32_t depth = set.workers > 0 ? set.depth : input.prefetch();
  return std::max(1u, std::min(workers, depth));
}

/// Returns the rate at which the processes of a rank read without other traffic.
double own_read_rate(const Prefetch& set, const Input& input) {
  const double read = to_seconds(input.read());
  return read > 0 ? readers_beside(set, input) * input.stored() / read : kUnlimited;
}

/// Returns the bytes that a rank reads in one step, the mean of the replicas. `shares`: their
/// micro-batches.
double step_bytes(const Input& input, const std::vector<std::uint32_t>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  return sum / std::max(1.0, static_cast<double>(shares.size())) * input.stored();
}

/// Returns the seconds until the checkpoint in flight is complete if each rank writes at `rate`.
double write_time(const TrainingState& state, double rate) {
  return state.saving.bytes_left(state.now) / (rate * state.fit().graph().ranks());
}

StorageRates rates_now(const JobInWorld& here, const TrainingState& state, StorageRates wanted) {
  return storage_rates(here.scenario().cluster().storage(),
                       state.faults.plan.storage(state.step, state.now),
                       state.fit().storage_nodes(), wanted);
}

}  // namespace

std::vector<StorageNodes> storage_nodes(const Cluster& cluster, const StepGraph& graph,
                                        const std::vector<GpuId>& placement) {
  std::map<NodeId, std::pair<std::uint32_t, std::uint32_t>> ranks;
  for (std::uint32_t rank = 0; rank < placement.size(); ++rank) {
    auto& [writers, readers] = ranks[cluster.node_of(placement[rank])];
    ++writers;
    if (graph.position({rank}).stage == 0) ++readers;
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> alike;
  for (const auto& [node, numbers] : ranks) ++alike[numbers];
  std::vector<StorageNodes> nodes;
  for (const auto& [numbers, count] : alike) {
    nodes.push_back({.nodes = count, .writers = numbers.first, .readers = numbers.second});
  }
  return nodes;
}

StorageRates storage_rates(const SharedStorage& storage, double share,
                           const std::vector<StorageNodes>& nodes, StorageRates wanted) {
  const double link = storage.has_node_bandwidth() ? storage.node_bandwidth() : kUnlimited;
  std::vector<EqualFlows> all;
  StorageRates slowest{kUnlimited, kUnlimited};
  for (const StorageNodes& each : nodes) {
    const StorageRates rates = rates_of_node(link, each, wanted);
    if (rates.write > 0) {
      all.push_back({1.0 * each.nodes * each.writers, rates.write});
      slowest.write = std::min(slowest.write, rates.write);
    }
    if (rates.read > 0) {
      all.push_back({1.0 * each.nodes * each.readers, rates.read});
      slowest.read = std::min(slowest.read, rates.read);
    }
  }
  const double level = fair_level(storage.bandwidth() * share, std::move(all));
  const auto limited = [level](double rate) {
    return std::isinf(rate) && std::isinf(level) ? 0 : std::min(rate, level);
  };
  return {limited(slowest.write), limited(slowest.read)};
}

Nanos read_time(const JobInWorld& here, const TrainingState& state, const Prefetch& set,
                const std::vector<std::uint32_t>& shares) {
  const Input& input = here.scenario().job().input();
  if (!input.has_stored()) return 0;
  const double own = own_read_rate(set, input);
  const double alone = rates_now(here, state, {.write = 0, .read = own}).read;
  double rate = alone;
  bool ends = false;
  if (state.saving.is_flowing()) {
    const StorageRates beside = rates_now(here, state, {.write = kUnlimited, .read = own});
    const double bytes = step_bytes(input, shares);
    const double during = write_time(state, beside.write);
    rate = beside.read;
    if (during * beside.read < bytes) {
      rate = bytes / (during + (bytes - during * beside.read) / alone);
      ends = true;
    }
  }
  if (rate >= own) return input.read();
  if (ends) rate = alone * std::exp(std::round(std::log(rate / alone) * kSteps) / kSteps);
  return std::max(input.read(), to_nanos(readers_beside(set, input) * input.stored() / rate));
}

bool is_input_cut(const JobInWorld& here, const TrainingState& state) {
  return here.scenario().job().input().has_stored() &&
         state.faults.plan.storage(state.step, state.now) <= 0;
}

void renew_write_rate(const JobInWorld& here, TrainingState& state, Nanos step_length) {
  if (!state.saving.is_flowing()) return;
  const Input& input = here.scenario().job().input();
  const auto rate_beside = [&](double read) {
    return rates_now(here, state, {.write = kUnlimited, .read = read}).write;
  };
  double rate = rate_beside(0);
  if (input.has_stored() && step_length > 0 && state.conditions) {
    const Prefetch& set = state.conditions->input;
    const double own = own_read_rate(set, input);
    const double bytes = step_bytes(input, state.conditions->shares);
    const double reading =
        bytes / input.stored() * to_seconds(state.conditions->read) / readers_beside(set, input);
    const double beside = rate_beside(own);
    const bool ends_before_reads = write_time(state, beside) < reading;
    rate = ends_before_reads ? beside
                             : rate_beside(std::min(own, bytes / to_seconds(step_length)));
  }
  state.saving.set_rate(rate * state.fit().graph().ranks(), state.now);
}

Nanos next_rate_change(const TrainingState& state) {
  if (!state.saving.is_flowing()) return kNever;
  return state.faults.plan.next_instant(state.now).value_or(kNever);
}

}  // namespace orrery::sim
