#include "sim/estimates/collectives/protocols.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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
      : cluster_(cluster), profile_(profile), schedule_(schedule), size_(size),
        sends_(kind == CollectiveKind::send_receive),
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

  /// Returns the share of NVLink's fitted rate: few GPUs of a domain reach less; reductions in
  /// switches and point-to-point sends have shares of their own.
  double inside() const {
    if (sends_) return profile_.send > 0 ? profile_.send / profile_.nvlink : 1;
    const double loss = profile_.collective_pair_loss;
    const std::uint32_t members = std::min(schedule_.per_domain, 8u);
    const double few = (1 - loss / members) / (1 - loss / 8);
    const bool nvls = schedule_.algorithm == CollectiveAlgorithm::nvls && profile_.nvls > 0;
    return nvls ? few * profile_.nvls / profile_.nvlink : few;
  }

  void price(CollectivePhase& phase, Protocol protocol) const {
    double plain = 0, reached = 0;  // seconds per byte of a flow, at the slowest link
    for (const LinkLoad& load : phase.links) {
      const double each = load.flows / link_rate(cluster_, profile_, load.link);
      const LinkKind kind = cluster_.link(load.link).kind;
      const bool nvlink = kind == LinkKind::nvlink_in || kind == LinkKind::nvlink_out;
      plain = std::max(plain, each);
      reached = std::max(reached, nvlink ? each / inside() : each);
    }
    reached /= rate(protocol);
    const Rounds& longer = rounds_[static_cast<std::size_t>(protocol)];
    const double near_rounds = phase.rounds - phase.far_rounds;
    phase.latency += Seconds{profile_.collective_hop * longer.near * near_rounds +
                             profile_.network_hop * longer.far * phase.far_rounds};
    if (plain == 0) return;
    const double transfer = size_ * phase.share * reached;
    phase.share *= reached / plain;
    // Two GPUs of a domain send to each other without a pipeline of several hops: no fill time.
    const bool far = phase.far_rounds > 0;
    if (protocol != Protocol::simple || (sends_ && !far)) return;
    const double fill =
        far ? profile_.network_fill * far_time(phase) : profile_.collective_fill.value;
    phase.latency += Seconds{2 * std::sqrt(transfer * fill)};
  }

  /// Returns the seconds of the rounds between domains, which a pipeline has to fill.
  double far_time(const CollectivePhase& phase) const {
    const double each = cluster_.shape().nic_latency.value +
                        profile_.network_hop * rounds_[2].far;
    return phase.far_rounds * each;
  }

  const Cluster& cluster_;
  const CostProfile& profile_;
  const CollectiveSchedule& schedule_;
  const double size_;
  const bool sends_;
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

}  // namespace orrery::estimates
