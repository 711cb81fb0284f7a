#include "sim/estimates/collectives/protocols.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/estimates/collectives/collective_groups.hpp"

namespace orrery::estimates {
namespace {

/// Seconds by which a round of a protocol exceeds a round of LL, inside a domain and between
/// domains: differences of NCCL 2.x's constants (src/graph/tuning.cc, hwLat of NVLink and network).
struct Rounds {
  double near, far;
};
constexpr std::array<Rounds, 3> kRing{Rounds{0, 0}, {1.3e-6, 1.3e-6}, {2.8e-6, 11.3e-6}};
constexpr std::array<Rounds, 3> kTree{Rounds{0, 0}, {0.65e-6, 3.5e-6}, {3.4e-6, 9e-6}};

/// Pricing of one schedule under one cost profile.
class Pricing {
 public:
  Pricing(const Cluster& cluster, const CostProfile& profile, CollectiveKind kind,
          const CollectiveSchedule& schedule, double size)
      : cluster_(cluster),
        profile_(profile),
        schedule_(schedule),
        size_(size),
        sends_(kind == CollectiveKind::send_receive),
        reduces_(kind == CollectiveKind::all_reduce),
        rounds_(schedule.algorithm == CollectiveAlgorithm::tree ||
                        schedule.algorithm == CollectiveAlgorithm::nvls
                    ? kTree
                    : kRing) {}

  bool offers(Protocol protocol) const {
    if (protocol == Protocol::simple) return true;
    const bool flags = !sends_ && schedule_.algorithm != CollectiveAlgorithm::nvls;
    return flags && rate(protocol) > 0;
  }

  PricedSchedule under(Protocol protocol) const {
    PricedSchedule priced{protocol, schedule_, {}};
    for (CollectivePhase& phase : priced.schedule.phases) price(phase, protocol);
    if (!priced.schedule.phases.empty()) {
      priced.schedule.phases.front().latency +=
          sends_ ? profile_.send_start : profile_.collective_start;
    }
    priced.alone = uncontended_time(cluster_, profile_, priced.schedule, {size_});
    return priced;
  }

 private:
  double rate(Protocol protocol) const {
    switch (protocol) {
      case Protocol::ll: return profile_.collective_ll;
      case Protocol::ll128: return profile_.collective_ll128;
      case Protocol::simple: break;
    }
    return 1;
  }

  /// Returns the share of the rate that fewer than 8 GPUs of a domain reach.
  double few(double loss) const {
    return (1 - loss / std::min(schedule_.per_domain, 8u)) / (1 - loss / 8);
  }

  /// Returns the share of NVLink's fitted rate: few GPUs of a domain reach less; rings, reductions
  /// in switches, all-to-alls and point-to-point sends have shares of their own.
  double inside() const {
    const auto over_nvlink = [&](double share) { return share > 0 ? share / profile_.nvlink : 1; };
    if (sends_) return over_nvlink(profile_.send);
    const double half = profile_.collective_half_loss;
    const double loss = reduces_ || half == 0 ? profile_.collective_pair_loss : half;
    const bool nvls = schedule_.algorithm == CollectiveAlgorithm::nvls;
    const bool direct = schedule_.algorithm == CollectiveAlgorithm::direct;
    return few(loss) * over_nvlink(nvls     ? profile_.nvls
                                   : direct ? profile_.collective_direct
                                            : profile_.collective_ring);
  }

  /// Returns the time to fill a pipeline inside a domain.
  double near_fill() const {
    const bool nvls = schedule_.algorithm == CollectiveAlgorithm::nvls;
    const bool own = nvls && profile_.collective_nvls_fill.value > 0;
    return own ? profile_.collective_nvls_fill.value : profile_.collective_fill.value;
  }

  void price(CollectivePhase& phase, Protocol protocol) const {
    double plain = 0, reached = 0;  // seconds per byte of a flow, at the slowest link
    for (const LinkLoad& load : phase.links) {
      const double each = load.flows / link_rate(cluster_, profile_, load.link);
      const LinkKind kind = cluster_.link(load.link).kind;
      const bool nvlink = kind == LinkKind::nvlink_in || kind == LinkKind::nvlink_out;
      plain = std::max(plain, each);
      reached = std::max(reached, each / (nvlink ? inside() : few(profile_.network_pair_loss)));
    }
    reached /= rate(protocol);
    const Rounds& longer = rounds_[static_cast<std::size_t>(protocol)];
    const double near_rounds = phase.rounds - phase.far_rounds;
    const double round = profile_.collective_round > 0 ? profile_.collective_round - 1 : 0;
    phase.latency += Seconds{
        (profile_.collective_hop * longer.near + round * cluster_.shape().nvlink_latency.value) *
            near_rounds +
        profile_.network_hop * longer.far * phase.far_rounds};
    if (plain == 0) return;
    const double transfer = size_ * phase.share * reached;
    phase.share *= reached / plain;
    // Two GPUs of a domain send to each other without a pipeline of several hops: no fill time.
    const bool far = phase.far_rounds > 0;
    if (protocol != Protocol::simple || (sends_ && !far)) return;
    const double fill = far ? profile_.network_fill * far_time(phase) : near_fill();
    phase.latency += Seconds{2 * std::sqrt(transfer * fill)};
  }

  /// Returns the seconds of the rounds between domains, which a pipeline has to fill.
  double far_time(const CollectivePhase& phase) const {
    const double each = cluster_.shape().nic_latency.value + profile_.network_hop * rounds_[2].far;
    return phase.far_rounds * each;
  }

  const Cluster& cluster_;
  const CostProfile& profile_;
  const CollectiveSchedule& schedule_;
  const double size_;
  const bool sends_, reduces_;
  const std::array<Rounds, 3>& rounds_;
};

}  // namespace

PricedSchedule price_protocols(const Cluster& cluster, const CostProfile& profile,
                               CollectiveKind kind, CollectiveSchedule schedule, Bytes size) {
  const Pricing pricing(cluster, profile, kind, schedule, size.value);
  PricedSchedule best = pricing.under(Protocol::simple);
  for (const Protocol protocol : {Protocol::ll, Protocol::ll128}) {
    if (!pricing.offers(protocol)) continue;
    PricedSchedule other = pricing.under(protocol);
    if (other.alone.value < best.alone.value) best = std::move(other);
  }
  return best;
}

std::optional<CollectiveAlgorithm> fastest_alone(const Cluster& cluster, const CostProfile& profile,
                                                 CollectiveKind kind,
                                                 const std::vector<GpuGroup>& groups, Bytes size,
                                                 std::span<const CollectiveAlgorithm> candidates) {
  std::optional<CollectiveAlgorithm> best;
  double least = std::numeric_limits<double>::infinity();
  for (const CollectiveAlgorithm candidate : candidates) {
    CollectiveSchedule schedule = collective_schedule(cluster, kind, candidate, groups);
    if (schedule.algorithm != candidate) continue;
    const double time =
        price_protocols(cluster, profile, kind, std::move(schedule), size).alone.value;
    if (time >= least) continue;
    best = candidate;
    least = time;
  }
  return best;
}

std::span<const CollectiveAlgorithm> nccl_algorithms(CollectiveKind kind) {
  using enum CollectiveAlgorithm;
  static constexpr CollectiveAlgorithm kAll[] = {ring, tree, nvls};
  static constexpr CollectiveAlgorithm kDirect[] = {direct};
  const bool is_direct = kind == CollectiveKind::all_to_all || kind == CollectiveKind::send_receive;
  return is_direct ? std::span<const CollectiveAlgorithm>(kDirect) : kAll;
}

CollectiveAlgorithm choose_nccl_algorithm(const Cluster& cluster, const CostProfile& profile,
                                          CollectiveKind kind, const std::vector<GpuGroup>& groups,
                                          Bytes size) {
  if (profile.collective_ll == 0) return choose_algorithm(cluster, profile, kind, groups, size);
  std::vector<CollectiveAlgorithm> candidates;
  // NCCL's trees are chains inside a domain, no faster than a ring there.
  const bool one_domain = groups.empty() || by_domain(cluster, groups.front()).size() < 2;
  for (const CollectiveAlgorithm candidate : nccl_algorithms(kind)) {
    if (candidate == CollectiveAlgorithm::tree && one_domain) continue;
    candidates.push_back(candidate);
  }
  return fastest_alone(cluster, profile, kind, groups, size, candidates)
      .value_or(nccl_algorithms(kind).front());
}

}  // namespace orrery::estimates
