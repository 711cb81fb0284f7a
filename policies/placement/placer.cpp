#include "policies/placement/placer.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/placement/consolidated.hpp"
#include "policies/placement/count.hpp"
#include "policies/placement/per_node.hpp"
#include "policies/placement/topology.hpp"

namespace orrery {

void FreeGpus::Nodes::add(std::uint32_t node) {
  bits[node / 64] |= std::uint64_t{1} << node % 64;
  ++count;
}

void FreeGpus::Nodes::remove_node(std::uint32_t node) {
  bits[node / 64] &= ~(std::uint64_t{1} << node % 64);
  --count;
}

std::uint32_t FreeGpus::Nodes::first(std::uint32_t from, std::uint32_t none) const {
  if (count == 0 || from >= none) return none;
  std::uint64_t word = bits[from / 64] & ~std::uint64_t{0} << from % 64;
  for (std::uint32_t at = from / 64;; word = bits[at]) {
    if (word != 0) return at * 64 + static_cast<std::uint32_t>(std::countr_zero(word));
    if (++at == bits.size()) return none;
  }
}

FreeGpus::FreeGpus(const Cluster& cluster)
    : gpus_per_node_(cluster.shape().gpus_per_node),
      nodes_per_unit_(std::max(1u, cluster.shape().nodes_per_unit)),
      words_((gpus_per_node_ + 63) / 64),
      free_bits_(std::size_t{cluster.nodes()} * words_, 0),
      known_(cluster.nodes(), 0),
      per_node_(cluster.nodes(), 0),
      with_(gpus_per_node_ + 1) {
  const std::size_t words = (per_node_.size() + 63) / 64;
  for (Nodes& nodes : with_) nodes.bits.assign(words, 0);
  not_full_.bits.assign(words, 0);
  for (std::uint32_t node = 0; node < nodes(); ++node) with_[0].add(node);
}

FreeGpus::FreeGpus(const Cluster& cluster, const std::string& kind) : FreeGpus(cluster) {
  for (const NodesOfKind& each : cluster.shape().kinds) {
    excluded_.insert(excluded_.end(), each.nodes, each.kind == kind ? 0 : 1);
  }
}

void FreeGpus::set_free_count(std::uint32_t node, std::uint32_t free) {
  const std::uint32_t before = per_node_[node];
  if (before == free) return;
  with_[before].remove_node(node);
  with_[free].add(node);
  if (before == 0 && free > 0) not_full_.add(node);
  if (before > 0 && free == 0) not_full_.remove_node(node);
  total_ += free - before;
  per_node_[node] = free;
}

/// Copies the node's free GPUs from the state.
void FreeGpus::update_node(std::uint32_t node) {
  if (is_excluded(node)) return;
  known_[node] = 0;
  set_free_count(node, state_->free_per_node[node]);
}

std::uint64_t* FreeGpus::bits_of(std::uint32_t node) {
  std::uint64_t* const bits = &free_bits_[std::size_t{node} * words_];
  if (std::exchange(known_[node], 1) != 0) return bits;
  std::copy_n(&state_->free_bits[std::size_t{node} * words_], words_, bits);
  return bits;
}

void FreeGpus::refresh_from(const ClusterState& state) {
  const std::uint64_t kept = state.changed_nodes.size();
  if (state_ != &state || state.changes - followed_ > kept) {
    state_ = &state;
    for (std::uint32_t node = 0; node < nodes(); ++node) update_node(node);
  } else {
    for (; followed_ < state.changes; ++followed_)
      update_node(state.changed_nodes[followed_ % kept]);
    for (const std::uint32_t node : ours_) update_node(node);
  }
  ours_.clear();
  followed_ = state.changes;
}

std::uint32_t FreeGpus::first_with(std::uint32_t free, std::uint32_t from) const {
  return with_[free].first(from, nodes());
}

std::uint32_t FreeGpus::first_not_full(std::uint32_t from) const {
  return not_full_.first(from, nodes());
}

void FreeGpus::take_gpus(std::uint32_t node, std::uint32_t count, GpuRuns& out) {
  ensure(count <= per_node_[node], "a node has the GPUs that are taken from it");
  set_free_count(node, per_node_[node] - count);
  ours_.push_back(node);
  std::uint64_t* bits = bits_of(node);
  const std::uint32_t end = (node + 1) * gpus_per_node_;
  for (std::uint32_t first = node * gpus_per_node_; count > 0; ++bits, first += 64) {
    ensure(first < end, "a node has the free GPUs that it counts");
    while (*bits != 0 && count > 0) {
      const auto at = static_cast<std::uint32_t>(std::countr_zero(*bits));
      const auto in_a_row = static_cast<std::uint32_t>(std::countr_one(*bits >> at));
      const std::uint32_t taken = std::min(in_a_row, count);
      *bits &= ~((~std::uint64_t{0} >> (64 - taken)) << at);
      out.append_run({first + at, taken});
      count -= taken;
    }
  }
}

void FreeGpus::remove_gpus(const GpuRuns& gpus) {
  for (const GpuId gpu : gpus) {
    const std::uint32_t node = gpu.value / gpus_per_node_, at = gpu.value % gpus_per_node_;
    bits_of(node)[at / 64] &= ~(std::uint64_t{1} << at % 64);
    set_free_count(node, per_node_[node] - 1);
    ours_.push_back(node);
  }
}

void FreeGpus::return_gpus(const GpuRuns& gpus) {
  for (const GpuId gpu : gpus) {
    const std::uint32_t node = gpu.value / gpus_per_node_, at = gpu.value % gpus_per_node_;
    if (is_excluded(node) || !state_->is_healthy(gpu, {node})) continue;
    bits_of(node)[at / 64] |= std::uint64_t{1} << at % 64;
    set_free_count(node, per_node_[node] + 1);
    ours_.push_back(node);
  }
}

FreeKinds::FreeKinds(const Cluster& cluster) : gpus_per_node_(cluster.shape().gpus_per_node) {
  const std::vector<std::string> names = cluster.gpu_kinds();
  if (names.size() < 2) return;
  for (const std::string& name : names) kinds_.push_back({name, FreeGpus(cluster, name)});
  for (const NodesOfKind& each : cluster.shape().kinds) {
    const auto kind = std::find(names.begin(), names.end(), each.kind) - names.begin();
    of_node_.insert(of_node_.end(), each.nodes, static_cast<std::uint32_t>(kind));
  }
}

std::size_t FreeKinds::kind_of(const GpuRuns& gpus) const {
  ensure(!gpus.empty(), "a job whose kind is looked up has GPUs");
  return of_node_[gpus.runs().front().first / gpus_per_node_];
}

std::vector<std::size_t> FreeKinds::order_for(const JobSpec& job) const {
  std::vector<std::size_t> order;
  if (job.gpu_kinds.empty()) {
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) order.push_back(kind);
  }
  for (const std::string& name : job.gpu_kinds) {
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      if (kinds_[kind].name == name) order.push_back(kind);
    }
  }
  return order;
}

void FreeKinds::refresh_from(const ClusterState& state) {
  for (Kind& kind : kinds_) kind.free.refresh_from(state);
}

std::optional<GpuRuns> FreeKinds::place_job(const JobSpec& job, const Placer& placer) {
  for (const std::size_t kind : order_for(job)) {
    FreeGpus& free = kinds_[kind].free;
    if (job.gpus > free.total()) continue;
    if (std::optional<GpuRuns> gpus = placer.place_job(job, free)) return gpus;
  }
  return {};
}

void FreeKinds::return_gpus(const GpuRuns& gpus) {
  for (Kind& kind : kinds_) kind.free.return_gpus(gpus);
}

std::vector<std::string> placer_names() { return all_names<PlacementRule>(); }

std::unique_ptr<Placer> make_placer(std::string_view name) {
  if (const std::optional<PlacementRule> placement = find_named<PlacementRule>(name)) {
    switch (*placement) {
      case PlacementRule::count: return std::make_unique<CountPlacer>();
      case PlacementRule::consolidated: return std::make_unique<ConsolidatedPlacer>();
      case PlacementRule::topology: return std::make_unique<TopologyPlacer>();
      case PlacementRule::per_node: return std::make_unique<PerNodePlacer>();
    }
  }
  throw Error(ErrorKind::bad_input, fmt::format("there is no placement '{}'{}", name,
                                                did_you_mean(name, placer_names())));
}

}  // namespace orrery
