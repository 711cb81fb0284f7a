// Random decisions and samples of every kind, for the tests of the codec.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "policies/seam/policy.hpp"

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
  bool random_flag() { return below(2) == 0; }
  template <class Enum>
  Enum random_enum(Enum last) {
    return static_cast<Enum>(below(static_cast<std::uint64_t>(last) + 1));
  }
  template <class Make>
  auto several(Make make) {
    std::vector<decltype(make())> out;
    for (std::uint64_t i = below(4); i > 0; --i) out.push_back(make());
    return out;
  }
  Sample<double> sample() {
    if (random_flag()) return {};
    return {real(), nanos(), random_enum(Origin::missing)};
  }

 private:
  Rng rng_;
};

inline GpuRuns random_gpus(Dice& dice) {
  GpuRuns gpus;
  for (std::uint64_t i = dice.below(4); i > 0; --i) {
    gpus.append_run({static_cast<std::uint32_t>(dice.below(1 << 20)),
                 static_cast<std::uint32_t>(1 + dice.below(1 << 10))});
  }
  return gpus;
}

inline Setting random_setting(Dice& dice, std::size_t kind) {
  switch (kind) {
    case 0: return Shares{dice.several([&dice] { return dice.u32(); })};
    case 1:
      return dice.several([&dice] {
        return CollectiveRule{dice.random_enum(CollectiveKind::send_receive), dice.real(),
                              dice.u32(), dice.random_enum(CollectiveAlgorithm::halving_doubling),
                              dice.u32()};
      });
    case 2:
      return dice.several([&dice] {
        return CodecRule{dice.u32(), dice.random_enum(Codec::power_sgd), dice.real(),
                         dice.random_flag()};
      });
    case 3: return CheckpointPlan{dice.u64(), dice.random_enum(Tier::storage)};
    case 4: return OnLoss{dice.random_enum(LossResponse::replace)};
    case 5: return Batch{dice.u32(), dice.real()};
    case 6: return Delay{dice.real()};
    case 7: return PowerCap{dice.real()};
    default: return Prefetch{dice.u32(), dice.u32()};
  }
}
inline Setting random_setting(Dice& dice) {
  return random_setting(dice, dice.below(std::variant_size_v<Setting>));
}

/// Assign, Save, and Configure of every setting.
inline constexpr std::size_t kDecisionKinds = 2 + std::variant_size_v<Setting>;

inline Action random_action(Dice& dice, std::size_t kind) {
  const JobId job{dice.u32()};
  if (kind == 0) {
    const GpuRuns gpus = random_gpus(dice);
    if (gpus.empty()) return Assign{job};
    const auto size = [&dice] { return static_cast<std::uint32_t>(1 + dice.below(64)); };
    return Assign{job, gpus, {size(), size(), size(), size(), dice.random_flag()},
                  dice.random_enum(StateFrom::checkpoint)};
  }
  if (kind == 1) return Save{job, dice.random_enum(Tier::storage)};
  return Configure{job, random_setting(dice, kind - 2)};
}

inline Decision random_decision(Dice& dice, std::size_t kind) {
  Decision decision{.id = dice.u64(), .what = random_action(dice, kind)};
  decision.at_step = dice.u64();
  if (dice.random_flag()) decision.if_epoch = Epoch{dice.u64()};
  decision.expires = dice.nanos();
  decision.group = dice.u32();
  decision.why = dice.text();
  return decision;
}

/// Random samples of every kind.
struct RandomSamples {
  explicit RandomSamples(Dice& dice) {
    const auto gpu = [&] { return GpuId{dice.u32()}; };
    devices = dice.several([&] {
      return DeviceSample{gpu(), dice.sample(), dice.sample(), dice.sample(), dice.sample()};
    });
    links = dice.several([&] { return LinkSample{gpu(), gpu(), dice.sample(), dice.sample()}; });
    ranks = dice.several([&] {
      return RankSample{{dice.u32()},  {dice.u32()},  dice.u64(),    dice.sample(), dice.sample(),
                        dice.sample(), dice.sample(), dice.sample(), dice.sample()};
    });
    collectives = dice.several([&] {
      return CollectiveSample{{dice.u32()},
                              dice.u64(),
                              dice.random_enum(CollectiveKind::send_receive),
                              dice.random_enum(CollectiveAlgorithm::halving_doubling),
                              dice.real(),
                              dice.u32(),
                              dice.real()};
    });
  }
  std::vector<DeviceSample> devices;
  std::vector<LinkSample> links;
  std::vector<RankSample> ranks;
  std::vector<CollectiveSample> collectives;
};

}  // namespace orrery::toy
