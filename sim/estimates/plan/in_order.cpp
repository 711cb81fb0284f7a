#include "sim/estimates/plan/in_order.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/plan/plan_base.hpp"

namespace orrery::estimates {
namespace {

/// More GPUs than any job has: nothing repeats.
constexpr std::uint32_t kMostGpus = 1u << 20;

/// Returns the number of GPUs by which a cluster can be shifted onto itself: a scalable unit (whole
/// NVLink domains; as many as leave each node its spine and core), or a domain if units do not
/// matter. Direct fabrics have paths over everything and a hash has no symmetry: the whole
/// cluster.
std::uint32_t unit_of(const Cluster& cluster) {
  const Cluster::Shape& shape = cluster.shape();
  const bool hashed = shape.transport == Transport::ecmp;
  if (cluster.is_direct() || hashed) return cluster.gpus();
  std::uint64_t nodes = shape.nodes_per_domain;
  if (shape.fabric == FabricKind::fat_tree) {
    nodes = std::lcm(std::lcm(nodes, std::uint64_t{shape.nodes_per_unit}),
                     std::uint64_t{shape.spines} * shape.cores);
    nodes = std::lcm(nodes,
                     std::uint64_t{shape.nodes_per_unit} * std::max(1u, shape.units_per_pod));
  }
  return static_cast<std::uint32_t>(
      std::min(nodes * shape.gpus_per_node, std::uint64_t{kMostGpus}));
}

Cluster with_gpus(const Cluster& cluster, std::uint32_t gpus) {
  Cluster::Shape shape = cluster.shape();
  if (cluster.is_direct() || shape.transport == Transport::ecmp) return cluster;
  shape.nodes = (gpus + shape.gpus_per_node - 1) / shape.gpus_per_node;
  return Cluster(cluster.gpu_model(), shape, cluster.price());
}

double seconds_per_byte(const Cluster& cluster, const CostProfile& profile,
                        const std::vector<LinkLoad>& loads) {
  double slowest = 0;
  for (const LinkLoad& load : loads) {
    slowest = std::max(slowest, load.flows / link_rate(cluster, profile, load.link));
  }
  return slowest;
}

}  // namespace

InOrder::InOrder(const StepGraph& graph, const Cluster& cluster)
    : graph_(graph),
      unit_(unit_of(cluster)),
      replicas_(unit_ / std::gcd(unit_, span(graph.members()))),
      in_node_(cluster.shape().gpus_per_node),
      locals_(in_node_),
      cluster_(cluster) {
  if (graph.ranks() > cluster.gpus()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expected a cluster with a GPU for each of the job's {} ranks, found "
                            "{} GPUs: use fewer ranks or more nodes",
                            graph.ranks(), cluster.gpus()));
  }
  cluster_ = with_gpus(cluster, last_gpu() + 1);
  locals_ = locals_shown();
  counter_.emplace(cluster_);
  find_classes();
}

std::uint32_t InOrder::offset(std::uint32_t stage) const {
  return graph_.rank(0, stage, 0).value;
}

std::uint32_t InOrder::span(std::uint32_t place) const {
  const std::uint32_t members = graph_.members();
  return graph_.rank(place / members, 0, place % members).value;
}

std::uint32_t InOrder::period(std::uint32_t gpus) const {
  const std::uint32_t replica = span(graph_.members());
  return gpus / std::gcd(gpus, replica) * graph_.members();
}

/// Two positions closer than two units keep their exact distance; others keep only their offsets in
/// their units.
InOrder::Border InOrder::border(std::uint32_t from, std::uint32_t to) const {
  const std::int64_t unit = unit_, source = offset(from) % unit_;
  const std::int64_t distance = std::int64_t{offset(to)} - offset(from);
  if (std::abs(distance) < 2 * unit) {
    const std::int64_t shift = source + distance < 0 ? 2 * unit : 0;
    return {static_cast<std::uint32_t>(source + shift),
            static_cast<std::uint32_t>(source + distance + shift)};
  }
  const std::int64_t target = offset(to) % unit;
  return {static_cast<std::uint32_t>(source),
          static_cast<std::uint32_t>(target + (target >= source ? unit : 2 * unit))};
}

std::uint32_t InOrder::last_gpu() const {
  std::uint32_t farthest = 0;
  const std::uint32_t window = std::min(plane(), 2 * replicas_ * graph_.members());
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    const std::uint32_t next = (stage + 1) % graph_.pipeline();
    for (const Border& each : {border(stage, next), border(next, stage)}) {
      farthest = std::max({farthest, each.source, each.target});
    }
  }
  std::uint32_t most = window;
  for (const Communicator which : {Communicator::gradient, Communicator::shard,
                                   Communicator::replicate, Communicator::expert_gradient}) {
    if (graph_.communicator_size(which) > 1)
      most = std::max(most, shown_places(graph_.lie_of(which)).places);
  }
  return farthest + span(most - 1);
}

/// A rank at index `place` is on the GPU at index place % in_node_ of its node if whole nodes hold
/// the ranks of a replica's stage. Flows between GPUs of one index then stay on their rail, and all
/// rails have the same ones. A hash of routes knows the rail.
std::uint32_t InOrder::locals_shown() const {
  const bool hashed = cluster_.shape().transport == Transport::ecmp;
  if (hashed || graph_.members() % in_node_ != 0 || in_node_ % cluster_.rails() != 0) {
    return in_node_;
  }
  return in_node_ / cluster_.rails();
}

void InOrder::find_classes() {
  const std::uint32_t stages = graph_.pipeline(), members = graph_.members();
  std::set<Border> borders;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    const bool around = stage + 1 == stages;
    if (around && (stages == 1 || graph_.chunks() == 1)) continue;
    borders.insert(border(stage, (stage + 1) % stages));
  }
  std::map<std::vector<std::uint8_t>, std::uint32_t> seen;
  std::vector<std::uint8_t> crossings;
  for (std::uint32_t replica = 0; replica < std::min(graph_.data(), replicas_); ++replica) {
    crossings.clear();
    for (const Border& each : borders) {
      for (std::uint32_t member = 0; member < members; ++member) {
        if (!is_shown(member)) continue;
        const std::uint32_t at = span(replica * members + member);
        crossings.push_back(crossing(cluster_, {each.source + at}, {each.target + at}));
      }
    }
    const auto fresh = static_cast<std::uint32_t>(seen.size());
    class_of_.push_back(seen.emplace(crossings, fresh).first->second);
  }
  classes_ = static_cast<std::uint32_t>(seen.size());
}

bool InOrder::all_alike() const {
  if (classes_ == 1) return true;
  const std::uint32_t all = graph_.data() * graph_.context();
  for (const Communicator which : {Communicator::shard, Communicator::replicate,
                                   Communicator::expert, Communicator::expert_gradient}) {
    const std::uint32_t size = graph_.communicator_size(which);
    if (size > 1 && size != all) return false;
  }
  return true;
}

// ---- transfers between stages ---------------------------------------------------------------

InOrder::Way InOrder::transfer(const CostProfile& profile, std::uint32_t of_class,
                               std::uint32_t from, std::uint32_t to) {
  ensure((from + 1) % graph_.pipeline() == to || (to + 1) % graph_.pipeline() == from,
         "a transfer is between neighbouring stages");
  const Border at = border(from, to);
  const auto [entry, fresh] = transfers_.try_emplace({at, of_class});
  Way& way = entry->second;
  if (!fresh) return way;
  // Two periods always contain a whole unit, and no link is fuller than in a whole unit.
  const std::uint32_t replicas = std::min(graph_.data(), 2 * replicas_);
  for (std::uint32_t replica = 0; replica < replicas; ++replica) {
    if (class_of_[replica % replicas_] != of_class) continue;
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      if (!is_shown(member)) continue;
      const std::uint32_t place = span(replica * graph_.members() + member);
      const GpuId a{at.source + place}, b{at.target + place};
      counter_->add_flows(a, b);
      way.latency = std::max(way.latency, cluster_.latency(a, b));
    }
  }
  way.each = seconds_per_byte(cluster_, profile, counter_->drain_unordered());
  way.latency += profile.transfer_gap;
  return way;
}

// ---- communicators ------------------------------------------------------------------------

std::uint32_t InOrder::domains_among(std::uint32_t stride, std::uint32_t end) const {
  std::uint32_t count = 0, last = 0;
  for (std::uint32_t place = 0; place < end; place += stride) {
    const std::uint32_t domain = span(place) / cluster_.gpus_per_domain();
    if (count == 0 || domain != last) ++count;
    last = domain;
  }
  return count;
}

GroupShape InOrder::shape_of(Communicator which) const {
  const StepGraph::Lie lie = graph_.lie_of(which);
  GroupShape shape{lie.size, lie.size};
  if (lie.size < 2) return shape;
  const std::uint32_t domain = cluster_.gpus_per_domain(), block = lie.size * lie.stride;
  const std::uint32_t places = std::min(plane(), std::lcm(block, period(domain)));
  std::set<std::uint32_t> seen;  // positions of stages in their domain
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    const std::uint32_t base = offset(stage) % domain;
    if (!seen.insert(base).second) continue;
    for (std::uint32_t first = 0; first < places; ++first) {
      if (first % block >= lie.stride) continue;
      std::uint32_t count = 0, last = 0;
      for (std::uint32_t i = 0; i < lie.size; ++i) {
        const std::uint32_t at = (base + span(first + i * lie.stride)) / domain;
        if (i == 0 || at != last) ++count;
        last = at;
      }
      shape.per_node = std::min(shape.per_node, shape.size / count);
    }
  }
  return shape;
}

BlockGroups InOrder::block_groups() const {
  return group_links(cluster_, shape_of(Communicator::tensor), shape_of(Communicator::context),
                     shape_of(Communicator::expert));
}

InOrder::Shown InOrder::shown_places(StepGraph::Lie lie) const {
  const std::uint64_t block = std::uint64_t{lie.size} * lie.stride, all = plane();
  std::uint64_t repeat =
      std::lcm(std::uint64_t{replicas_} * graph_.members(), std::uint64_t{lie.stride});
  if (block < all) {
    return {static_cast<std::uint32_t>(std::min(all, 2 * std::lcm(repeat, block))), 0};
  }
  // Rings pass every second domain in reverse order, so that a period needs an even number of
  // domains.
  if (repeat < all && domains_among(lie.stride, static_cast<std::uint32_t>(repeat)) % 2 != 0) {
    repeat *= 2;
  }
  if (3 * repeat > all) return {plane(), 0};
  return {static_cast<std::uint32_t>(2 * repeat + all % repeat),
          static_cast<std::uint32_t>(repeat)};
}

std::vector<InOrder::Group> InOrder::groups(std::uint32_t stage, StepGraph::Lie lie,
                                            std::uint32_t places) const {
  const std::uint32_t base = offset(stage) % unit_;
  const std::uint32_t block = std::min(lie.size * lie.stride, places);
  const bool on_one_rail = lie.stride % in_node_ == 0;
  std::vector<Group> out;
  for (std::uint32_t first = 0; first < places; first += block) {
    for (std::uint32_t beside = 0; beside < lie.stride; ++beside) {
      if (on_one_rail && !is_shown(beside)) continue;
      Group& group = out.emplace_back();
      for (std::uint32_t at = first + beside; at < first + block; at += lie.stride) {
        group.push_back({base + span(at)});
      }
    }
  }
  return out;
}

/// Hidden members repeat in blocks of `repeat`, which equal the shown members from the second
/// domain on.
double InOrder::round_of(const Group& ring, std::uint32_t members, std::uint32_t repeat) const {
  const auto here = static_cast<std::uint32_t>(ring.size());
  const std::uint32_t domain = cluster_.domain_of(ring.front());
  std::uint32_t first = 0;
  while (first < here && cluster_.domain_of(ring[first]) == domain) ++first;
  double around = 0, repeated = 0;
  for (std::uint32_t i = 0; i < here; ++i) {
    const double latency = cluster_.latency(ring[i], ring[(i + 1) % here]).value;
    around += latency;
    if (i >= first && i - first < repeat) repeated += latency;
  }
  if (here < members) around += repeated * ((members - here) / repeat);
  return around / members;
}

InOrder::Rings InOrder::rings(const CostProfile& profile, std::uint32_t stage,
                              Communicator which) {
  const auto [entry, fresh] = rings_.try_emplace({offset(stage) % unit_, which});
  Rings& rings = entry->second;
  if (!fresh) return rings;
  const StepGraph::Lie lie = graph_.lie_of(which);
  const Shown seen = shown_places(lie);
  std::vector<std::vector<Group>> channels;
  bool even = true;
  for (const Group& group : groups(stage, lie, seen.places)) {
    channels.push_back(ring_channels(cluster_, group));
    even = even && channels.back().size() == channels.front().size();
  }
  rings.channels = even ? static_cast<std::uint32_t>(channels.front().size()) : 1;
  for (std::vector<Group>& of_group : channels) {
    of_group.resize(rings.channels);
    for (const Group& ring : of_group) {
      for (std::size_t i = 0; i < ring.size(); ++i) {
        counter_->add_flows(ring[i], ring[(i + 1) % ring.size()]);
      }
      rings.round = std::max(rings.round, round_of(ring, lie.size, seen.repeat / lie.stride));
    }
  }
  rings.each = seconds_per_byte(cluster_, profile, counter_->drain_unordered());
  return rings;
}

}  // namespace orrery::estimates
