// Random observations and decisions of every kind, for the tests of the codec.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "policies/policy.hpp"

namespace orrery::toy {

/// Draws values; small and extreme ones alike.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : rng_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return rng_.below(bound); }
  std::uint64_t u64() { return below(3) == 0 ? below(4) : rng_.next(); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(u64()); }
  Nanos nanos() { return below(4) == 0 ? kNever : static_cast<Nanos>(u64()); }
  double real() {
    const double extremes[] = {0, -1, 0.1, 1e300, std::numeric_limits<double>::infinity(), 5e-324};
    return below(2) == 0 ? extremes[below(6)] : rng_.normal();
  }
  std::string text() {
    std::string out;
    for (std::uint64_t i = below(6); i > 0; --i) out += static_cast<char>('a' + below(26));
    return out;
  }
  bool flag() { return below(2) == 0; }
  template <class Enum>
  Enum pick(Enum last) {
    return static_cast<Enum>(below(static_cast<std::uint64_t>(last) + 1));
  }
  template <class Make>
  auto several(Make make) {
    std::vector<decltype(make())> out;
    for (std::uint64_t i = below(4); i > 0; --i) out.push_back(make());
    return out;
  }
  Sample<double> sample() {
    if (flag()) return {};
    return {real(), nanos(), pick(Origin::missing)};
  }

 private:
  Rng rng_;
};

inline Action random_action(Dice& dice, std::size_t kind) {
  const JobId job{dice.u32()};
  const auto gpu = [&dice] { return GpuId{dice.u32()}; };
  switch (kind) {
    case 0: return PlaceJob{job, dice.several(gpu)};
    case 1: return Preempt{job, dice.flag()};
    case 2: return ShiftMicrobatches{job, dice.several([&dice] { return dice.u32(); })};
    case 3: return SetAccumulation{job, dice.u32()};
    case 4: return SetLayout{job, dice.u32(), dice.u32(), dice.u32()};
    case 5: return SetBuckets{job, {dice.real()}};
    case 6: return Prefetch{job, dice.u32()};
    case 7:
      return SetCollectiveTable{job, dice.several([&dice] {
        return CollectiveRule{dice.pick(CollectiveKind::send_receive), dice.real(), dice.u32(),
                              dice.pick(CollectiveAlgorithm::halving_doubling), dice.u32()};
      })};
    case 8:
      return SetCodec{job, dice.several([&dice] {
        return CodecRule{dice.u32(), dice.pick(Codec::power_sgd), dice.real(), dice.flag()};
      })};
    case 9: return SetCheckpoint{job, dice.nanos(), dice.pick(CheckpointTier::storage)};
    case 10: {
      Recover recover{job, dice.pick(Recovery::wait),
                      dice.several([&dice] { return RankId{dice.u32()}; }), {},
                      dice.pick(StateSource::checkpoint)};
      if (dice.flag()) recover.spare = gpu();
      return recover;
    }
    case 11: return SetPowerCap{gpu(), {dice.real()}};
    default: return WakeMe{dice.nanos()};
  }
}

inline Decision random_decision(Dice& dice, std::size_t kind) {
  Decision decision{.number = dice.u64(), .what = random_action(dice, kind)};
  decision.effective_at_step = dice.u64();
  if (dice.flag()) decision.if_epoch = Epoch{dice.u64()};
  decision.expires = dice.nanos();
  decision.why = dice.text();
  return decision;
}

/// Samples about a cluster of `gpus` GPUs and job 0, which has `world_size` ranks.
struct RandomSamples {
  RandomSamples(Dice& dice, std::uint64_t gpus, std::uint64_t world_size) {
    const auto gpu = [&] { return GpuId{static_cast<std::uint32_t>(dice.below(gpus))}; };
    devices = dice.several([&] {
      return DeviceSample{gpu(), dice.sample(), dice.sample(), dice.sample(), dice.sample()};
    });
    links = dice.several([&] { return LinkSample{gpu(), gpu(), dice.sample(), dice.sample()}; });
    ranks = dice.several([&] {
      return RankSample{{0}, {static_cast<std::uint32_t>(dice.below(world_size))}, dice.u64(),
                        dice.sample(), dice.sample(), dice.sample(), dice.sample()};
    });
    collectives = dice.several([&] {
      return CollectiveSample{{0}, dice.pick(CollectiveKind::send_receive),
                              dice.pick(CollectiveAlgorithm::halving_doubling), dice.real(),
                              dice.u32(), dice.real()};
    });
  }
  std::vector<DeviceSample> devices;
  std::vector<LinkSample> links;
  std::vector<RankSample> ranks;
  std::vector<CollectiveSample> collectives;
};

}  // namespace orrery::toy
