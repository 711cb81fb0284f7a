#include "traces/workload/step_schedule.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

namespace orrery {
namespace {

using Kind = Pass::Kind;

std::string letters(const std::vector<Pass>& order) {
  std::string out;
  for (const Pass& pass : order) {
    out += pass.kind == Kind::forward ? 'F' : pass.kind == Kind::backward ? 'B' : 'W';
    out += static_cast<char>('0' + pass.micro_batch);
    if (pass.chunk > 0) out += static_cast<char>('a' + pass.chunk);
  }
  return out;
}

TEST(StepSchedule, OneF1BWarmsUpByTheStagesAfter) {
  EXPECT_EQ(letters(pass_order({.stage = 0, .stages = 3, .micro_batches = 4})),
            "F0F1F2B0F3B1B2B3");
  EXPECT_EQ(letters(pass_order({.stage = 2, .stages = 3, .micro_batches = 3})), "F0B0F1B1F2B2");
  EXPECT_EQ(letters(pass_order({.stage = 0, .stages = 4, .micro_batches = 2})), "F0F1B0B1");
  EXPECT_TRUE(pass_order({.stage = 1, .stages = 3, .micro_batches = 0}).empty());
}

TEST(StepSchedule, ZeroBubblePutsWeightsOffByTheStage) {
  EXPECT_EQ(letters(pass_order({.stage = 0, .stages = 2, .micro_batches = 3,
                                .zero_bubble = true})),
            "F0F1B0W0F2B1W1B2W2");
  EXPECT_EQ(letters(pass_order({.stage = 1, .stages = 2, .micro_batches = 3,
                                .zero_bubble = true})),
            "F0B0F1B1W0F2B2W1W2");
}

TEST(StepSchedule, InterleavedIsMegatrons) {
  // Narayanan et al. 2021, figure 4: two chunks, two stages, four micro-batches.
  EXPECT_EQ(letters(pass_order({.stage = 0, .stages = 2, .chunks = 2, .micro_batches = 4})),
            "F0F1F0bF1bF2B0bF3B1bF2bB0F3bB1B2bB3bB2B3");
  EXPECT_EQ(letters(pass_order({.stage = 1, .stages = 2, .chunks = 2, .micro_batches = 4})),
            "F0F1F0bB0bF1bB1bF2B0F3B1F2bB2bF3bB3bB2B3");
}

/// Runs all stages in lockstep of one unit a pass; false: some wait for ever.
bool runs(std::uint32_t stages, std::uint32_t chunks, std::uint32_t count, bool zero_bubble) {
  using Key = std::tuple<Kind, std::uint32_t, std::uint32_t>;  // micro-batch, virtual stage
  std::set<Key> done;
  std::vector<std::vector<Pass>> order;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    order.push_back(pass_order({stage, stages, chunks, count, zero_bubble}));
  }
  std::vector<std::size_t> next(stages);
  const std::uint32_t last = stages * chunks - 1;
  for (bool progress = true; progress;) {
    progress = false;
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      while (next[stage] < order[stage].size()) {
        const Pass& pass = order[stage][next[stage]];
        const std::uint32_t at = pass.chunk * stages + stage;
        const std::uint32_t mb = pass.micro_batch;
        bool may = true;
        if (pass.kind == Kind::forward && at > 0) may = done.contains({Kind::forward, mb, at - 1});
        if (pass.kind == Kind::backward) {
          may = done.contains({Kind::forward, mb, at}) &&
                (at == last || done.contains({Kind::backward, mb, at + 1}));
        }
        if (pass.kind == Kind::weights) may = done.contains({Kind::backward, mb, at});
        if (!may) break;
        done.insert({pass.kind, mb, at});
        ++next[stage];
        progress = true;
      }
    }
  }
  const std::size_t kinds = zero_bubble ? 3 : 2;
  return done.size() == kinds * count * stages * chunks;
}

TEST(StepSchedule, EveryPassGetsToRunOnce) {
  for (std::uint32_t stages = 1; stages <= 9; ++stages) {
    for (std::uint32_t count = 0; count <= 20; ++count) {
      EXPECT_TRUE(runs(stages, 1, count, false)) << stages << " " << count;
      EXPECT_TRUE(runs(stages, 1, count, true)) << stages << " " << count;
      for (std::uint32_t chunks = 2; stages > 1 && chunks <= 4; ++chunks) {
        EXPECT_TRUE(runs(stages, chunks, count, false)) << stages << " " << chunks << " " << count;
      }
    }
  }
}

TEST(StepSchedule, ZeroBubbleHoldsNoMoreThanOneF1B) {
  for (std::uint32_t stage = 0; stage < 6; ++stage) {
    int held = 0, most = 0;
    for (const Pass& pass : pass_order({.stage = stage, .stages = 6, .micro_batches = 20,
                                        .zero_bubble = true})) {
      if (pass.kind == Kind::forward) most = std::max(most, ++held);
      if (pass.kind == Kind::weights) --held;
    }
    EXPECT_LE(most, 6) << stage;
  }
}

}  // namespace
}  // namespace orrery
