#include "policies/placement/placer.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/placement/consolidated.hpp"
#include "policies/placement/count.hpp"
#include "policies/placement/per_node.hpp"
#include "policies/placement/topology.hpp"

namespace orrery {
namespace {

/// Returns `count` set bits from bit `first` on; together at most 64, `count` above 0.
std::uint64_t mask(std::uint32_t first, std::uint32_t count) {
  return (~std::uint64_t{0} >> (64 - count)) << first;
}

/// Calls `each` with the pieces of `run` that lie within one of the ranges of `size` ids each.
template <class Each>
void by_range(GpuRuns::Run run, std::uint32_t size, const Each& each) {
  while (run.count > 0) {
    const std::uint32_t here = std::min(run.count, size - run.first % size);
    each(GpuRuns::Run{run.first, here});
    run = {run.first + here, run.count - here};
  }
}

}  // namespace

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
    : slices_(cluster.shape().slices_per_gpu),
      gpus_per_node_(cluster.shape().gpus_per_node / slices_),
      nodes_per_unit_(std::max(1u, cluster.shape().nodes_per_unit)),
      words_((cluster.shape().gpus_per_node + 63) / 64),
      free_bits_(std::size_t{cluster.nodes()} * words_, 0),
      known_(cluster.nodes(), 0),
      per_node_(cluster.nodes(), 0),
      with_(gpus_per_node_ + 1) {
  const std::size_t words = (per_node_.size() + 63) / 64;
  for (Nodes& nodes : with_) nodes.bits.assign(words, 0);
  not_full_.bits.assign(words, 0);
  for (std::uint32_t node = 0; node < nodes(); ++node) with_[0].add(node);
  if (slices_ > 1) room_.assign(std::size_t{cluster.nodes()} * gpus_per_node_, 0);
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
  whole_ += free - before;
  per_node_[node] = free;
}

void FreeGpus::set_room(std::uint32_t gpu, std::uint32_t room) {
  const std::uint32_t before = room_[gpu], node = gpu / gpus_per_node_;
  if (before == room) return;
  if (before > 0 && before < slices_) parts_.erase({before, gpu}), in_parts_ -= before;
  if (room > 0 && room < slices_) parts_.emplace(room, gpu), in_parts_ += room;
  room_[gpu] = static_cast<std::uint16_t>(room);
  if (before == slices_) set_free_count(node, per_node_[node] - 1);
  if (room == slices_) set_free_count(node, per_node_[node] + 1);
}

std::uint32_t FreeGpus::total_in_node(std::uint32_t node) const {
  if (slices_ == 1) return per_node_[node];
  const auto first = room_.begin() + static_cast<std::ptrdiff_t>(node * gpus_per_node_);
  return std::accumulate(first, first + gpus_per_node_, 0u);
}

/// Copies the node's free GPUs from the state.
void FreeGpus::update_node(std::uint32_t node) {
  if (is_excluded(node)) return;
  known_[node] = 0;
  if (slices_ == 1) return set_free_count(node, state_->free_per_node[node]);
  const std::uint64_t* const bits = bits_of(node);
  for (std::uint32_t gpu = 0; gpu < gpus_per_node_; ++gpu) {
    std::uint32_t room = 0;
    for (std::uint32_t at = gpu * slices_; at < (gpu + 1) * slices_;) {
      const std::uint32_t here = std::min(64 - at % 64, (gpu + 1) * slices_ - at);
      room += static_cast<std::uint32_t>(std::popcount(bits[at / 64] & mask(at % 64, here)));
      at += here;
    }
    set_room(node * gpus_per_node_ + gpu, room);
  }
}

std::uint64_t* FreeGpus::bits_of(std::uint32_t node) {
  std::uint64_t* const bits = &free_bits_[std::size_t{node} * words_];
  if (std::exchange(known_[node], 1) != 0) return bits;
  std::copy_n(&state_->free_bits[std::size_t{node} * words_], words_, bits);
  return bits;
}

void FreeGpus::refresh_from(const ClusterState& state) {
  const std::uint64_t kept = state.changed_nodes.size();
  const bool is_simple = slices_ == 1 && excluded_.empty();
  const auto update = [&](std::uint32_t node) {
    if (!is_simple) return update_node(node);
    known_[node] = 0;
    if (per_node_[node] != state.free_per_node[node]) {
      set_free_count(node, state.free_per_node[node]);
    }
  };
  if (state_ != &state || state.changes - followed_ > kept) {
    state_ = &state;
    for (std::uint32_t node = 0; node < nodes(); ++node) update(node);
  } else {
    for (; followed_ < state.changes; ++followed_) update(state.changed_nodes[followed_ % kept]);
    for (const std::uint32_t node : ours_) update(node);
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
  if (slices_ > 1) {
    for (std::uint32_t gpu = node * gpus_per_node_; count > 0; ++gpu) {
      if (room_[gpu] < slices_) continue;
      mark_run({gpu * slices_, slices_}, false);
      out.append_run({gpu * slices_, slices_});
      --count;
    }
    return;
  }
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

void FreeGpus::take_node(std::uint32_t node, GpuRuns& out) {
  take_gpus(node, per_node_[node], out);
  if (slices_ == 1) return;
  const std::uint64_t* const bits = bits_of(node);
  const std::uint32_t first = node * gpus_per_node_ * slices_;
  GpuRuns left;
  for (std::uint32_t at = 0; at < gpus_per_node_ * slices_; ++at) {
    if ((bits[at / 64] >> at % 64 & 1) != 0) left.push_back({first + at});
  }
  remove_gpus(left);
  for (const GpuRuns::Run& run : left.runs()) out.append_run(run);
}

std::optional<GpuRuns> FreeGpus::take_part(std::uint32_t slices) {
  const auto found = parts_.lower_bound({slices, 0});
  if (found == parts_.end()) return {};
  const std::uint32_t first = found->second * slices_;
  const std::uint32_t node = found->second / gpus_per_node_;
  const std::uint64_t* const bits = bits_of(node);
  GpuRuns out;
  for (std::uint32_t id = first; out.size() < slices; ++id) {
    const std::uint32_t at = id - node * gpus_per_node_ * slices_;
    if ((bits[at / 64] >> at % 64 & 1) != 0) out.push_back({id});
  }
  remove_gpus(out);
  return out;
}

/// Marks ids of one GPU, or in a cluster of GPUs ids of one node, as free or taken.
void FreeGpus::mark_run(GpuRuns::Run run, bool free) {
  const std::uint32_t per_node = gpus_per_node_ * slices_;
  const std::uint32_t node = run.first / per_node, at = run.first % per_node;
  std::uint64_t* const bits = bits_of(node);
  ours_.push_back(node);
  by_range({at, run.count}, 64, [&](GpuRuns::Run here) {
    const std::uint64_t chosen = mask(here.first % 64, here.count);
    std::uint64_t& word = bits[here.first / 64];
    word = free ? word | chosen : word & ~chosen;
  });
  if (slices_ == 1) {
    return set_free_count(node, free ? per_node_[node] + run.count : per_node_[node] - run.count);
  }
  const std::uint32_t gpu = run.first / slices_;
  set_room(gpu, free ? room_[gpu] + run.count : room_[gpu] - run.count);
}

void FreeGpus::remove_gpus(const GpuRuns& gpus) {
  for (const GpuRuns::Run& run : gpus.runs()) {
    by_range(run, slices_, [this](GpuRuns::Run here) { mark_run(here, false); });
  }
}

void FreeGpus::return_gpus(const GpuRuns& gpus) {
  if (slices_ == 1 && excluded_.empty() && state_->parts.empty()) {
    for (const GpuRuns::Run& run : gpus.runs()) {
      by_range(run, gpus_per_node_, [this](GpuRuns::Run here) { mark_run(here, true); });
    }
    return;
  }
  for (const GpuRuns::Run& run : gpus.runs()) {
    by_range(run, slices_, [this](GpuRuns::Run here) {
      const std::uint32_t node = here.first / (gpus_per_node_ * slices_);
      if (is_excluded(node) || !state_->is_healthy({here.first}, {node})) return;
      mark_run(here, true);
    });
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

std::optional<GpuRuns> Placer::place_job(const JobSpec& job, FreeGpus& free) const {
  const std::uint32_t slices = free.slices_per_gpu();
  if (slices == 1 || job.gpus >= slices) return place_gpus(job.gpus / slices, job.layout, free);
  if (std::optional<GpuRuns> part = free.take_part(job.gpus)) return part;
  const std::optional<GpuRuns> gpu = place_gpus(1, job.layout, free);
  if (!gpu) return {};
  const GpuId first = gpu->front();
  free.return_gpus(GpuRuns::range({first.value + job.gpus}, slices - job.gpus));
  return GpuRuns::range(first, job.gpus);
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
