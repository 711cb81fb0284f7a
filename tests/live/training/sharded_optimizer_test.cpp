#include "live/training/sharded_optimizer.hpp"

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "live/training/device.hpp"
#include "tests/live/flip.hpp"
#include "tests/live/loop_fabric.hpp"
#include "topologies/failure_domain.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kSize = 53;
constexpr double kRate = 0.01;

std::vector<float> initial() {
  std::vector<float> values;
  for (std::size_t i = 0; i < kSize; ++i) values.push_back(0.1F * float(i));
  return values;
}

std::vector<float> gradient_at(int step) {
  Rng rng = Rng(7).split_stream(std::to_string(step));
  std::vector<float> values;
  for (std::size_t i = 0; i < kSize; ++i) values.push_back(static_cast<float>(rng.normal()));
  return values;
}

struct Rank {
  std::vector<float> parameters = initial();
  ShardedOptimizer optimizer{parameters, kRate};
  bool current = true;
};

/// A job whose ranks come and go, beside one rank that holds everything.
class ShardedOptimizerTest : public testing::Test {
 protected:
  /// Another job, of so many ranks, none of which has trained.
  bool begin_anew(int count) {
    ranks_.clear();
    step_ = 0;
    expected_ = initial();
    reference_ = Adam(kSize, kRate);
    join(count);
    return deal();
  }
  void join(int count) {
    for (int i = 0; i < count; ++i) ranks_.push_back(std::make_unique<Rank>());
  }
  void join_late() {
    join(1);
    ranks_.back()->current = step_ == 0;
    ranks_.back()->parameters.assign(kSize, -1.0F);
    if (step_ == 0) ranks_.back()->parameters = initial();
  }
  void lose(std::size_t index) { ranks_.erase(ranks_.begin() + std::ptrdiff_t(index)); }

  /// True if every rank got through; `breaks_after` bytes were sent by one rank: the fabric breaks.
  bool deal(std::uint64_t breaks_after = ~std::uint64_t{0}) {
    const ShardedOptimizer::Keepers keepers = this->keepers();
    return together(breaks_after, [&keepers](Rank& rank, Fabric& fabric) {
      rank.optimizer.deal_state(fabric, rank.current, keepers);
      rank.current = true;
    });
  }

  /// Returns the holders for ranks in one node, or in the nodes that a test sets.
  ShardedOptimizer::Keepers keepers() const {
    std::vector<FailureDomain> members = domains_;
    members.resize(ranks_.size());
    return copy_keepers(members);
  }

  bool train(int steps = 1, std::uint64_t breaks_after = ~std::uint64_t{0}) {
    bool all = true;
    for (int i = 0; i < steps; ++i) {
      const std::vector<float> gradient = gradient_at(step_++);
      reference_.update(expected_, gradient, 0.5F);
      for (auto& rank : ranks_) rank->optimizer.update(gradient, 0.5F);
      all = together(breaks_after,
                     [](Rank& rank, Fabric& fabric) { rank.optimizer.gather_parameters(fabric); });
    }
    return all;
  }

  void expect_equal() {
    for (auto& rank : ranks_) ASSERT_EQ(rank->parameters, expected_);
    const auto count = static_cast<std::uint32_t>(ranks_.size());
    for (std::uint32_t index = 0; index < count; ++index) {
      const Range own = part_of(kSize, index, count);
      const TrainingState part = ranks_[index]->optimizer.part(own);
      EXPECT_EQ(part.optimizer_steps, own.size() > 0 ? std::uint64_t(step_) : 0u);
      for (std::size_t i = 0; i < own.size(); ++i) {
        ASSERT_EQ(part.mean[i], reference_.mean()[own.begin + i]);
        ASSERT_EQ(part.square[i], reference_.square()[own.begin + i]);
      }
    }
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<FailureDomain> domains_;
  int step_ = 0;
  std::vector<float> expected_ = initial();
  Adam reference_{kSize, kRate};
  std::function<void()> on_call_of_first_;  ///< called before each message of rank 0
  std::set<std::uint32_t> receivers_of_first_;  ///< receivers of rank 0, in the newest operation

 private:
  /// Fabric that breaks once it has sent so much. Calls `on_call` before each message.
  class BreakingFabric : public LoopFabric {
   public:
    BreakingFabric(LoopHub& hub, std::uint32_t rank, std::uint64_t most)
        : LoopFabric(hub, rank), most_(most) {}
    void send_to(std::uint32_t rank, std::span<const std::byte> bytes) override {
      if (bytes_sent() > most_) abort("cut");
      receivers.insert(rank);
      if (on_call) on_call();
      LoopFabric::send_to(rank, bytes);
    }
    void receive_from(std::uint32_t rank, std::span<std::byte> bytes) override {
      if (on_call) on_call();
      LoopFabric::receive_from(rank, bytes);
    }
    std::function<void()> on_call;
    std::set<std::uint32_t> receivers;

   private:
    const std::uint64_t most_;
  };

  template <class Action>
  bool together(std::uint64_t breaks_after, Action action) {
    const auto count = static_cast<std::uint32_t>(ranks_.size());
    LoopHub hub(count);
    std::vector<int> through(count, 0);
    std::vector<std::exception_ptr> errors(count);
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t index = 0; index < count; ++index) {
        threads.emplace_back([&, index] {
          BreakingFabric fabric(hub, index, breaks_after);
          if (index == 0) fabric.on_call = on_call_of_first_;
          try {
            action(*ranks_[index], fabric);
            through[index] = 1;
            if (index == 0) receivers_of_first_ = fabric.receivers;
          } catch (const FabricBroken&) {
          } catch (...) {
            errors[index] = std::current_exception();
            fabric.abort("an error");
          }
        });
      }
    }
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    return std::count(through.begin(), through.end(), 1) == count;
  }
};

TEST_F(ShardedOptimizerTest, AnyNumberOfRanksUpdatesLikeOne) {
  for (const int count : {1, 2, 3, 4, 7}) {
    ASSERT_TRUE(begin_anew(count) && train(5));
    expect_equal();
  }
}

TEST_F(ShardedOptimizerTest, ARankHoldsTwoPartsOfTheState) {
  join(8);
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train());
  const std::size_t whole = 2 * sizeof(float) * kSize;
  for (auto& rank : ranks_) {
    EXPECT_LE(rank->optimizer.bytes(), whole * 2 / 8 + 2 * 2 * sizeof(float));
  }
}

TEST_F(ShardedOptimizerTest, WhoeverIsLostTheStateIsDealtAnew) {
  for (std::size_t victim = 0; victim < 4; ++victim) {
    ASSERT_TRUE(begin_anew(4) && train(3));
    lose(victim);
    ASSERT_TRUE(deal());
    ASSERT_TRUE(train(2));
    expect_equal();
    join_late();
    ASSERT_TRUE(deal());
    ASSERT_TRUE(train(2));
    expect_equal();
  }
}

TEST_F(ShardedOptimizerTest, TwoNeighboursMayBeLostAtOnce) {
  for (std::size_t first = 0; first < 3; ++first) {
    ASSERT_TRUE(begin_anew(4) && train(3));
    lose(first + 1);
    lose(first);
    join_late();
    ASSERT_TRUE(deal());
    ASSERT_TRUE(train(3));
    expect_equal();
  }
}

TEST_F(ShardedOptimizerTest, AWholeNodeMayBeLostAtOnce) {
  join(6);
  domains_ = {{0, 0}, {0, 1}, {0, 0}, {0, 1}, {0, 0}, {0, 1}};
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(3));
  for (const std::size_t rank : {4u, 2u, 0u}) lose(rank);
  domains_ = {{0, 1}, {0, 1}, {0, 1}};
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(3));
  expect_equal();
}

TEST_F(ShardedOptimizerTest, OneLostTogetherWithWhoKeepsItsCopyTakesStateWithIt) {
  join(4);
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(3));
  lose(3);
  lose(1);
  try {
    deal();
    FAIL();
  } catch (const StateLost& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("parameters 14 to 26"), std::string::npos) << error.message();
  }
}

TEST_F(ShardedOptimizerTest, ARankLostBeforeTheParametersWereGatheredCostsNothing) {
  join(4);
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(3));
  EXPECT_FALSE(train(1, 0)) << "every rank breaks off";
  lose(1);
  ASSERT_TRUE(deal());
  expect_equal();
  ASSERT_TRUE(train(2));
  expect_equal();
}

TEST_F(ShardedOptimizerTest, WhereverADealBreaksAnotherOneMakesUpForIt) {
  const char* given = std::getenv("ORRERY_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 1;
  SCOPED_TRACE(testing::Message() << "ORRERY_SEED=" << seed);
  Rng rng(seed);
  join(4);
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(1));
  for (int round = 0; round < 60; ++round) {
    lose(rng.below(4));
    for (int broken = 0; broken < 3; ++broken) deal(rng.below(2500));
    ASSERT_TRUE(deal());
    lose(rng.below(3));  // loss before any update
    join_late();
    for (int broken = 0; broken < 3; ++broken) deal(rng.below(2500));
    join_late();
    ASSERT_TRUE(deal());
    ASSERT_TRUE(train(1));
    expect_equal();
  }
}

/// Each link costs a handshake.
TEST_F(ShardedOptimizerTest, ADistributionOpensOnlyTheLinksOfARing) {
  join(4);
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(2));
  join_late();
  ASSERT_TRUE(deal());
  EXPECT_EQ(receivers_of_first_, std::set<std::uint32_t>{1});
  ASSERT_TRUE(train(2));
  expect_equal();
}

TEST_F(ShardedOptimizerTest, AWholeStateIsTakenOnAndDealt) {
  join(3);
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(3));
  TrainingState whole{.optimizer_steps = 3, .parameters = expected_};
  whole.mean.assign(reference_.mean().begin(), reference_.mean().end());
  whole.square.assign(reference_.square().begin(), reference_.square().end());
  ranks_.clear();
  join(2);
  for (auto& rank : ranks_) rank->optimizer.restore_state(whole);
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(2));
  expect_equal();
}

/// A bit of the first rank's parameters flips before one of the messages of a gathering or of a
/// distribution. The rank finds it, and no other rank gets it.
TEST_F(ShardedOptimizerTest, ABitThatFlipsDuringATransferIsFoundByItsRankAndStaysThere) {
  Rng rng(1);
  int flips = 0;
  for (const bool gathers : {true, false}) {
    for (int at = 0; at < 300; ++at) {
      on_call_of_first_ = nullptr;
      ASSERT_TRUE(begin_anew(4) && train(2));
      int left = at / 5;  // five places a message
      bool flipped = false;
      on_call_of_first_ = [&] {
        if (left-- == 0) flip_bit(ranks_[0]->parameters[rng.below(kSize)]);
        flipped = flipped || left < 0;
      };
      bool found = false;
      try {
        gathers ? train() : deal();
      } catch (const StateDamaged&) {
        found = true;
      }
      on_call_of_first_ = nullptr;
      if (!flipped) break;
      ++flips;
      EXPECT_TRUE(found || !ranks_[0]->optimizer.is_state_intact()) << gathers << " " << at;
      for (int rank = 1; rank < 4; ++rank) EXPECT_TRUE(ranks_[rank]->optimizer.is_state_intact());
      lose(0);
      ASSERT_TRUE(deal());
      ASSERT_TRUE(train(2));
      expect_equal();
    }
  }
  EXPECT_EQ(flips, 5 * (6 + 10)) << "messages of the first rank";
}

TEST_F(ShardedOptimizerTest, HoldersOfOnePartHaveEqualChecksumsOfIt) {
  join(4);
  ASSERT_TRUE(deal());
  ASSERT_TRUE(train(3));
  std::map<std::uint32_t, std::vector<Checksum>> sums;
  for (auto& rank : ranks_) {
    for (const auto& [part, sum] : rank->optimizer.part_checksums()) sums[part].push_back(sum);
  }
  ASSERT_EQ(sums.size(), 5u) << "parameters and four parts";
  for (const auto& [part, holders] : sums) {
    EXPECT_EQ(holders.size(), part == 0 ? 4u : 2u);
    for (const Checksum& sum : holders) EXPECT_EQ(sum, holders.front());
  }
  const Range own = part_of(kSize, 1, 4);
  EXPECT_EQ(sums[2].front(), checksum_of(ranks_[1]->optimizer.part(own), own.begin));
}

}  // namespace
}  // namespace orrery::live
