#include "sim/estimates/collectives/collective_scheduler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.hpp"

namespace orrery {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;

/// In-order numbering of a binary tree whose root 0 has one child.
std::int64_t in_order_parent(std::uint32_t n, std::uint32_t rank) {
  if (rank == 0) return -1;
  const std::uint32_t bit = rank & (~rank + 1);
  const std::uint32_t up = (rank ^ bit) | (bit << 1);
  return up >= n ? rank ^ bit : up;
}

}  // namespace

std::vector<GpuGroup> by_domain(const Cluster& cluster, const GpuGroup& members) {
  std::vector<GpuGroup> domains;
  std::map<std::uint32_t, std::size_t> index;
  for (const GpuId gpu : members) {
    const auto [entry, fresh] = index.emplace(cluster.domain_of(gpu), domains.size());
    if (fresh) domains.emplace_back();
    domains[entry->second].push_back(gpu);
  }
  return domains;
}

std::int64_t tree_parent(std::uint32_t n, std::uint32_t rank, bool second) {
  if (!second) return in_order_parent(n, rank);
  if (n % 2 == 0) {  // mirrored: leaves become inner nodes
    const std::int64_t up = in_order_parent(n, n - 1 - rank);
    return up < 0 ? -1 : n - 1 - up;
  }
  const std::int64_t up = in_order_parent(n, (rank + n - 1) % n);  // shifted
  return up < 0 ? -1 : (up + 1) % n;
}

MessageWay message_way(const Cluster& cluster, GpuId from, GpuId to) {
  const bool far = cluster.domain_of(from) != cluster.domain_of(to);
  return {far ? 1.0 : 0.0, cluster.latency(from, to).value};
}

void RingEdges::add(MessageWay edge, std::int64_t count) {
  count_ += count;
  const auto before = [](const auto& kind, MessageWay way) { return kind.first < way; };
  const auto at = std::lower_bound(kinds_.begin(), kinds_.end(), edge, before);
  if (at != kinds_.end() && at->first == edge) {
    at->second += count;
  } else {
    kinds_.insert(at, {edge, count});
  }
}

MessageWay RingEdges::mean() const {
  MessageWay around;
  for (const auto& [way, count] : kinds_) {
    around.far += way.far * static_cast<double>(count);
    around.latency += way.latency * static_cast<double>(count);
  }
  const auto count = static_cast<double>(count_);
  return {around.far / count, around.latency / count};
}

double ring_passes(CollectiveKind kind) { return kind == CollectiveKind::all_reduce ? 2 : 1; }

CollectiveScheduler::CollectiveScheduler(const Cluster& cluster, CollectiveKind kind,
                                         const std::vector<GpuGroup>& groups)
    : cluster_(cluster), kind_(kind), groups_(groups),
      n_(static_cast<std::uint32_t>(groups.front().size())), counter_(cluster) {
  for (const GpuGroup& group : groups) domains_.push_back(by_domain(cluster, group));
  const std::size_t first = domains_.front().front().size();
  const bool alike = std::all_of(domains_.begin(), domains_.end(), [&](const auto& of_group) {
    return std::all_of(of_group.begin(), of_group.end(),
                       [&](const GpuGroup& domain) { return domain.size() == first; });
  });
  if (!alike) return;
  each_ = static_cast<std::uint32_t>(first);
  spans_ = n_ / each_;
}

CollectiveSchedule CollectiveScheduler::make(CollectiveAlgorithm algorithm) {
  out_.algorithm = algorithm;
  for (const auto& domains : domains_) {
    for (const GpuGroup& domain : domains) {
      const auto size = static_cast<std::uint32_t>(domain.size());
      out_.per_domain = std::max(out_.per_domain, size);
    }
  }
  if (n_ < 2) return std::move(out_);
  bool done = false;
  switch (algorithm) {
    case Algorithm::ring: done = ring(); break;
    case Algorithm::tree: done = tree(); break;
    case Algorithm::hierarchical: done = hierarchical(); break;
    case Algorithm::direct: done = direct(); break;
    case Algorithm::nvls: done = nvls(); break;
    case Algorithm::halving_doubling: done = halving_doubling(); break;
    case Algorithm::automatic: break;
  }
  if (done) return std::move(out_);
  out_.algorithm = Algorithm::ring;
  if (ring()) return std::move(out_);
  out_.algorithm = Algorithm::direct;
  ensure(direct(), "direct serves every group");
  return std::move(out_);
}

void CollectiveScheduler::add_phase(double share, double rounds, Way all) {
  out_.phases.push_back({counter_.take(), share, rounds, all.far, {all.latency}});
}

void CollectiveScheduler::keep_longer(Way& longest, const Way& other, double times) {
  longest.far = std::max(longest.far, other.far * times);
  longest.latency = std::max(longest.latency, other.latency * times);
}

CollectiveScheduler::Way CollectiveScheduler::worst_way(const GpuGroup& group) const {
  // Members differ by domain, rail and unit only: those of the first member are all there are,
  // but for rings of nodes, where the way to the opposite side is the longest.
  Way worst;
  for (const GpuId from : {group.front(), group.back()}) {
    for (const GpuId to : group) keep_longer(worst, way(from, to));
  }
  return worst;
}

// ---- ring -----------------------------------------------------------------------------------

CollectiveScheduler::Way CollectiveScheduler::add_ring(const GpuGroup& ring, bool closed,
                                                       std::uint32_t times) {
  RingEdges around;
  const std::size_t edges = closed ? ring.size() : ring.size() - 1;
  for (std::size_t i = 0; i < edges; ++i) {
    const GpuId next = ring[(i + 1) % ring.size()];
    counter_.add(ring[i], next, times);
    around.add(way(ring[i], next));
  }
  return around.mean();
}

bool CollectiveScheduler::ring() {
  if (kind_ == Kind::all_to_all || kind_ == Kind::send_receive) return false;
  const bool closed = kind_ != Kind::broadcast;
  const std::uint32_t count = even() && spans_ > 1 ? each_ : 1;
  const double rounds = ring_passes(kind_) * (n_ - 1);
  Way all;  // a chunk goes once round: a round costs the mean of the edges
  for (const GpuGroup& group : groups_) {
    std::vector<GpuGroup> channels = ring_channels(cluster_, group);
    channels.resize(count);
    for (GpuGroup& channel : channels) {
      if (!closed) {  // a broadcast's ring begins at its root
        std::rotate(channel.begin(), std::find(channel.begin(), channel.end(), group.front()),
                    channel.end());
      }
      keep_longer(all, add_ring(channel, closed), rounds);
    }
  }
  add_phase((closed ? rounds / n_ : 1) / count, rounds, all);
  return true;
}

// ---- double binary tree ---------------------------------------------------------------------

CollectiveScheduler::Way CollectiveScheduler::add_trees(const GpuGroup& heads, bool up) {
  const auto size = static_cast<std::uint32_t>(heads.size());
  Way longest;
  for (const bool second : {false, true}) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      const std::int64_t parent = tree_parent(size, rank, second);
      if (parent < 0) continue;
      counter_.add(heads[static_cast<std::size_t>(parent)], heads[rank]);
      if (up) counter_.add(heads[rank], heads[static_cast<std::size_t>(parent)]);
      Way whole;
      std::int64_t below = rank;
      for (std::int64_t at = parent; at >= 0;
           at = tree_parent(size, static_cast<std::uint32_t>(at), second)) {
        const Way edge = way(heads[static_cast<std::size_t>(below)],
                             heads[static_cast<std::size_t>(at)]);
        whole.far += edge.far;
        whole.latency += edge.latency;
        below = at;
      }
      keep_longer(longest, whole);
    }
  }
  return longest;
}

/// Within a domain a chain, as NCCL has it, whose head is a node of both trees; each member is
/// head of one channel. Where a group is one domain, or has one member in each, trees only. Each
/// tree carries half of its channel, up and down at once.
bool CollectiveScheduler::tree() {
  if (kind_ != Kind::all_reduce && kind_ != Kind::broadcast) return false;
  const bool chained = even() && spans_ > 1 && each_ > 1;
  if (kind_ == Kind::broadcast && chained) return false;
  const double passes = reduces() ? 2 : 1;
  Way all;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (chained) {
      for (std::uint32_t head = 0; head < each_; ++head) {
        keep_longer(all, add_chained_trees(domains_[g], head), passes);
      }
      continue;
    }
    Way trees = add_trees(groups_[g], reduces());
    if (!reduces()) {
      // The root, rank 0, is that of the first tree; it feeds the root of the second.
      const GpuId root = groups_[g].front(), second = groups_[g][n_ % 2 == 0 ? n_ - 1 : 1];
      counter_.add(root, second);
      trees.far += way(root, second).far;
      trees.latency += way(root, second).latency;
    }
    keep_longer(all, trees, passes);
  }
  const std::uint32_t height = std::bit_width((chained ? spans_ : n_) - 1);
  const std::uint32_t chain_rounds = chained ? each_ - 1 : 0;
  const double extra = reduces() ? 0 : 1;
  add_phase(0.5 / (chained ? each_ : 1), passes * (height + chain_rounds) + extra, all);
  return true;
}

CollectiveScheduler::Way CollectiveScheduler::add_chained_trees(
    const std::vector<GpuGroup>& domains, std::uint32_t head) {
  GpuGroup heads;
  double chain = 0;
  for (const GpuGroup& domain : domains) {
    heads.push_back(domain[head]);
    chain = 0;
    for (std::uint32_t i = 0; i + 1 < each_; ++i) {
      const GpuId near = domain[(head + i) % each_], far = domain[(head + i + 1) % each_];
      counter_.add(near, far, 2);
      counter_.add(far, near, 2);
      chain += cluster_.latency(far, near).value;
    }
  }
  Way all = add_trees(heads, true);
  all.latency += chain;
  return all;
}

// ---- recursive halving and doubling ---------------------------------------------------------

void CollectiveScheduler::exchange(std::uint32_t distance, std::uint32_t ranks, double share) {
  Way all;
  for (const GpuGroup& group : groups_) {
    // Of the ranks beyond a power of two, pairs were folded into their second members.
    const std::uint32_t extras = n_ - ranks;
    const auto member = [&](std::uint32_t i) {
      return group[i < extras ? 2 * i + 1 : i + extras];
    };
    for (std::uint32_t i = 0; i < ranks; ++i) {
      const GpuId from = member(i), to = member(i ^ distance);
      counter_.add(from, to);
      keep_longer(all, way(from, to));
    }
  }
  add_phase(share, 1, all);
}

void CollectiveScheduler::fold_extras(bool in) {
  const std::uint32_t extras = n_ - std::bit_floor(n_);
  if (extras == 0) return;
  Way all;
  for (const GpuGroup& group : groups_) {
    for (std::uint32_t i = 0; i < extras; ++i) {
      const GpuId a = group[2 * i], b = group[2 * i + 1];
      counter_.add(in ? a : b, in ? b : a);
      keep_longer(all, way(a, b));
    }
  }
  add_phase(1, 1, all);
}

/// Rabenseifner's: halves of the buffer with the next rank first, then smaller parts farther away.
bool CollectiveScheduler::halving_doubling() {
  const std::uint32_t ranks = std::bit_floor(n_);
  if (kind_ == Kind::all_to_all || kind_ == Kind::send_receive || kind_ == Kind::broadcast) {
    return false;
  }
  if (ranks != n_ && !reduces()) return false;
  fold_extras(true);
  if (kind_ != Kind::all_gather) {
    for (std::uint32_t distance = 1; distance < ranks; distance *= 2) {
      exchange(distance, ranks, 0.5 / distance);
    }
  }
  if (kind_ != Kind::reduce_scatter) {
    for (std::uint32_t distance = ranks / 2; distance > 0; distance /= 2) {
      exchange(distance, ranks, 0.5 / distance);
    }
  }
  fold_extras(false);
  return true;
}

// ---- direct ---------------------------------------------------------------------------------

bool CollectiveScheduler::direct() {
  Way all;
  for (const GpuGroup& group : groups_) keep_longer(all, worst_way(group));
  const std::uint32_t phases = reduces() ? 2 : 1;
  for (std::uint32_t phase = 0; phase < phases; ++phase) {
    for (const GpuGroup& group : groups_) {
      if (kind_ == Kind::send_receive) {
        counter_.add(group.front(), group.back());
      } else if (kind_ == Kind::broadcast) {
        for (const GpuId to : group) counter_.add(group.front(), to);
      } else {
        counter_.add_all_pairs(group);
      }
    }
    const bool whole = kind_ == Kind::send_receive || kind_ == Kind::broadcast;
    add_phase(whole ? 1 : 1.0 / n_, 1, all);
  }
  return true;
}

GpuGroup CollectiveScheduler::rail(const std::vector<GpuGroup>& domains, std::uint32_t k) {
  GpuGroup members;
  for (const GpuGroup& domain : domains) members.push_back(domain[k]);
  return members;
}

// ---- hierarchical: NVLink and rails -------------------------------------------------------

/// Rings inside all domains; `passes` as in ring(). What their rounds take is added to `all`.
void CollectiveScheduler::inner_rings(double passes, std::uint32_t times, Way& all) {
  Way longest;
  for (const auto& domains : domains_) {
    for (const GpuGroup& domain : domains) {
      keep_longer(longest, add_ring(domain, true, times), passes * (each_ - 1));
    }
  }
  all.latency += longest.latency;
}

/// Rings (or chains) over the k-th members of all domains.
void CollectiveScheduler::rail_rings(double passes, bool closed, std::uint32_t times, Way& all) {
  Way longest;
  for (const auto& domains : domains_) {
    for (std::uint32_t k = 0; k < each_; ++k) {
      keep_longer(longest, add_ring(rail(domains, k), closed, times), passes * (spans_ - 1));
    }
  }
  all.far += longest.far;
  all.latency += longest.latency;
}

/// While one chunk is on the rails, those before and after it are inside. A flow is what a rail's
/// edge carries, in parts of which an edge inside carries a whole number, as nearly as with a few.
void CollectiveScheduler::overlapped_rings(double passes) {
  constexpr std::uint32_t kMostParts = 16;
  const double ratio = (each_ - 1.0) * spans_ / (spans_ - 1.0);  // inside, of what rails carry
  std::uint32_t parts = 1;
  double least = 1;
  for (std::uint32_t tried = 1; tried <= kMostParts; ++tried) {
    const double off = std::abs(std::round(ratio * tried) / (ratio * tried) - 1);
    if (off >= least - 1e-9) continue;
    least = off;
    parts = tried;
  }
  Way all;
  inner_rings(passes, static_cast<std::uint32_t>(std::lround(ratio * parts)), all);
  rail_rings(passes, true, parts, all);
  add_phase(passes * (spans_ - 1) / spans_ / each_ / parts, passes * (each_ - 1 + spans_ - 1),
            all);
}

/// Scattered in the root's domain, along the rails, and gathered in every domain, chunk by chunk.
void CollectiveScheduler::hierarchical_broadcast() {
  Way all;
  for (const auto& domains : domains_) {
    const GpuGroup& first = domains.front();
    for (const GpuId to : first) counter_.add(first.front(), to);
    keep_longer(all, way(first.front(), first.back()));
  }
  inner_rings(1, each_ - 1, all);
  rail_rings(1, false, 1, all);
  add_phase(1.0 / each_, 1 + (each_ - 1) + (spans_ - 1), all);
}

bool CollectiveScheduler::hierarchical() {
  if (!even() || each_ < 2 || spans_ < 2) return false;
  switch (kind_) {
    case Kind::all_reduce: overlapped_rings(2); return true;
    case Kind::reduce_scatter:
    case Kind::all_gather: overlapped_rings(1); return true;
    case Kind::broadcast: hierarchical_broadcast(); return true;
    case Kind::send_receive: return false;
    case Kind::all_to_all: break;
  }
  // To the member of the own domain that stands where the destination stands in its own, then
  // along the rail.
  for (const auto& domains : domains_) {
    for (const GpuGroup& domain : domains) counter_.add_all_pairs(domain);
  }
  add_phase(1.0 / each_, 1, {0, cluster_.shape().nvlink_latency.value});
  Way all;
  for (const auto& domains : domains_) {
    for (std::uint32_t k = 0; k < each_; ++k) {
      const GpuGroup peers = rail(domains, k);
      counter_.add_all_pairs(peers);
      keep_longer(all, worst_way(peers));
    }
  }
  add_phase(1.0 / spans_, 1, all);
  return true;
}

// ---- in the switches ------------------------------------------------------------------------

/// NVLink's switches reduce what all GPUs of a domain hold into one of them each, and multiply
/// what one sends; between domains a double binary tree per rail, or the fabric's switches. All
/// in one pipeline. In flows of 1 / (2 each) of the buffer.
bool CollectiveScheduler::nvls() {
  if (!cluster_.gpu_model().nvls || !even() || each_ < 2) return false;
  std::uint32_t out = 0, in = 0;  // parts of 1 / each through a GPU's links
  switch (kind_) {
    case Kind::all_reduce: out = in = each_ + 1; break;
    case Kind::reduce_scatter: out = each_, in = 1; break;
    case Kind::all_gather: out = 1, in = each_; break;
    case Kind::broadcast:
    case Kind::all_to_all:
    case Kind::send_receive: return false;
  }
  if (spans_ > 1 && !reduces()) return false;
  const bool in_fabric = cluster_.shape().in_network_reduction;
  Way up;
  for (const auto& domains : domains_) {
    for (const GpuGroup& domain : domains) {
      for (const GpuId gpu : domain) {
        counter_.add_link(cluster_.nvlink_out(gpu), 2 * out);
        counter_.add_link(cluster_.nvlink_in(gpu), 2 * in);
      }
    }
    for (std::uint32_t k = 0; k < each_ && spans_ > 1; ++k) {
      const GpuGroup peers = rail(domains, k);
      keep_longer(up, in_fabric ? add_switch_tree(peers) : add_trees(peers, true));
    }
  }
  const double passes = reduces() ? 2 : 1;
  const std::uint32_t height = spans_ < 2 ? 0 : in_fabric ? 1 : std::bit_width(spans_ - 1);
  add_phase(0.5 / each_, passes * (1 + height),
            {passes * up.far, passes * (cluster_.shape().nvlink_latency.value + up.latency)});
  return true;
}

/// Each NIC sends its part once and receives the sum once; between units one spine adds up.
CollectiveScheduler::Way CollectiveScheduler::add_switch_tree(const GpuGroup& rail) {
  std::map<std::uint32_t, std::uint32_t> leaves;  // unit -> rail
  for (const GpuId gpu : rail) {
    const NodeId node = cluster_.node_of(gpu);
    counter_.add_link(cluster_.nic_out(node, cluster_.rail_of(gpu)), 2);
    counter_.add_link(cluster_.nic_in(node, cluster_.rail_of(gpu)), 2);
    leaves.emplace(cluster_.unit_of(node), cluster_.rail_of(gpu));
  }
  if (leaves.size() > 1) {
    const std::uint32_t spine = rail.front().value % cluster_.shape().spines;
    for (const auto& [unit, of_rail] : leaves) {
      counter_.add_link(cluster_.leaf_up(unit, of_rail, spine), 2);
      counter_.add_link(cluster_.leaf_down(unit, of_rail, spine), 2);
    }
  }
  return {1, worst_way(rail).latency / 2};  // to the switch in the middle
}

}  // namespace orrery
