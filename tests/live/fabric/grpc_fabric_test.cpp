#include "live/fabric/grpc_fabric.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

const Secrets kSecret{.token = "secret"};

/// A ring in this process; real sockets between the ranks.
class Fabrics {
 public:
  explicit Fabrics(std::uint32_t ranks, bool streams = false) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      addresses_.push_back("unix:" + folder_.path() + "/" + std::to_string(rank));
      all_.push_back(std::make_unique<GrpcFabric>(rank, ranks, addresses_.back(), kSecret));
    }
    for (auto& fabric : all_) {
      if (streams) fabric->disable_shared_memory();
      fabric->connect_next(addresses_);
    }
  }
  GrpcFabric& operator[](std::size_t rank) { return *all_[rank]; }
  void close(std::size_t rank) { all_[rank].reset(); }

  template <class Action>
  void on_every_rank(Action action) {
    std::vector<std::jthread> threads;
    for (auto& fabric : all_) {
      if (fabric) threads.emplace_back([&fabric = *fabric, &action] { action(fabric); });
    }
  }

 private:
  RunFolder folder_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<GrpcFabric>> all_;
};

using Vectors = std::vector<std::vector<float>>;

Vectors random_vectors(std::uint32_t ranks, std::size_t size) {
  Rng rng(ranks + size);
  Vectors out(ranks, std::vector<float>(size));
  for (auto& values : out) {
    for (float& value : values) value = static_cast<float>(rng.normal());
  }
  return out;
}

class GrpcFabricSizes
    : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::size_t, bool>> {};

TEST_P(GrpcFabricSizes, SumsOverAllRanksTwiceInARow) {
  const auto [ranks, size, streams] = GetParam();
  const Vectors before = random_vectors(ranks, size);
  Vectors after = before;
  Fabrics fabrics(ranks, streams);
  fabrics.on_every_rank([&](GrpcFabric& fabric) { fabric.all_reduce(after[fabric.rank()]); });
  for (std::size_t i = 0; i < size; ++i) {
    double expected = 0;
    for (const auto& values : before) expected += values[i];
    ASSERT_NEAR(after[0][i], expected, 1e-5) << i;
  }
  for (const auto& values : after) EXPECT_EQ(values, after[0]);
  const float first = after[0].front();
  fabrics.on_every_rank([&](GrpcFabric& fabric) { fabric.all_reduce(after[fabric.rank()]); });
  EXPECT_NEAR(after[0].front(), first * static_cast<float>(ranks), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, GrpcFabricSizes,
                         ::testing::Combine(::testing::Values(1u, 2u, 3u, 4u),
                                            ::testing::Values(std::size_t{1}, std::size_t{7},
                                                              std::size_t{1000},
                                                              std::size_t{100'000}),
                                            ::testing::Bool()));

TEST(GrpcFabric, TheWayThatBytesTakeChangesNoBitAndIsCounted) {
  for (const std::uint32_t ranks : {3u, 5u}) {
    Vectors shared = random_vectors(ranks, 50'001), streamed = shared;
    Fabrics near(ranks), far(ranks, true);
    near.on_every_rank([&](GrpcFabric& fabric) { fabric.all_reduce(shared[fabric.rank()]); });
    far.on_every_rank([&](GrpcFabric& fabric) { fabric.all_reduce(streamed[fabric.rank()]); });
    EXPECT_EQ(shared, streamed);
    const double least = 2.0 * (ranks - 1) / ranks * 200'000;
    for (Fabrics* each : {&near, &far}) {
      EXPECT_GT(static_cast<double>((*each)[0].bytes_sent()), least);
      EXPECT_LT(static_cast<double>((*each)[0].bytes_sent()), 1.01 * least + 1000);
    }
  }
}

TEST(GrpcFabric, EveryAlgorithmOfTheTableSumsAndIsNamed) {
  using Algorithm = CollectiveAlgorithm;
  Fabrics fabrics(5);
  for (const Algorithm each : {Algorithm::tree, Algorithm::halving_doubling, Algorithm::ring}) {
    fabrics.on_every_rank([&](GrpcFabric& fabric) {
      fabric.use_collectives({{.kind = CollectiveKind::all_reduce, .algorithm = each}});
      EXPECT_EQ(fabric.algorithm(40'000), each);
      std::vector<std::int64_t> values(5000, 1 + fabric.rank());
      fabric.all_reduce_integers(values);
      EXPECT_EQ(values, std::vector<std::int64_t>(5000, 15));
    });
  }
}

TEST(GrpcFabric, BytesBetweenAnyTwoRanksArriveInOrderBesideTheRing) {
  constexpr std::uint32_t kRanks = 4;
  Fabrics fabrics(kRanks);
  fabrics.on_every_rank([&](GrpcFabric& fabric) {
    std::vector<float> values(1000, 1.0F);
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<std::byte> bytes(600'000 * static_cast<std::size_t>(turn % 2) + 5);
      for (std::uint32_t to = 0; to < kRanks; ++to) {
        bytes.back() = static_cast<std::byte>(10 * fabric.rank() + to);
        if (to != fabric.rank()) fabric.send_to(to, bytes);
      }
      fabric.all_reduce(values);
      for (std::uint32_t from = 0; from < kRanks; ++from) {
        if (from == fabric.rank()) continue;
        fabric.receive_from(from, bytes);
        EXPECT_EQ(bytes.back(), static_cast<std::byte>(10 * from + fabric.rank()));
      }
    }
    EXPECT_EQ(values[7], 64.0F);
    EXPECT_GT(fabric.bytes_sent(), 3u * 600'000u);
    EXPECT_LT(fabric.bytes_sent(), 3u * 600'000u * 1.02 + 30'000);
  });
}

TEST(GrpcFabric, AWaitForBytesThatNeverComeEndsWithTheirSender) {
  Fabrics fabrics(3);
  std::atomic<int> broken = 0;
  std::atomic<bool> idle = false;  // nobody uses the third one any more
  std::jthread closer([&] {
    idle.wait(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    fabrics.close(2);
  });
  fabrics.on_every_rank([&](GrpcFabric& fabric) {
    if (fabric.rank() == 2) {
      idle = true;
      idle.notify_one();
      return;
    }
    std::vector<std::byte> bytes(10);
    EXPECT_THROW(fabric.receive_from(2, bytes), FabricBroken);
    ++broken;
  });
  EXPECT_EQ(broken, 2);
}

TEST(GrpcFabric, ASlowLinkTakesItsTime) {
  Fabrics fabrics(2);
  const auto start = std::chrono::steady_clock::now();
  fabrics.on_every_rank([&](GrpcFabric& fabric) {
    fabric.set_link_rate(1e6);
    std::vector<std::byte> bytes(50'000);
    fabric.send_to(1 - fabric.rank(), bytes);
    fabric.receive_from(1 - fabric.rank(), bytes);
  });
  // Never faster than the link; how much slower is this machine's affair.
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
}

/// All ranks but 0 enter an all-reduce that cannot end; `interrupt` ends it.
template <class Interrupt>
std::uint32_t broken_ranks(Fabrics& fabrics, Interrupt interrupt, std::size_t size = 1000) {
  std::atomic<std::uint32_t> broken = 0;
  std::vector<std::jthread> threads;
  for (std::size_t rank = 1; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<float> values(size, 1.0F);
      try {
        fabrics[rank].all_reduce(values);
      } catch (const FabricBroken&) {
        ++broken;
      }
    });
  }
  interrupt();
  threads.clear();
  return broken;
}

TEST(GrpcFabric, AbortWakesEveryBlockedRank) {
  Fabrics fabrics(4);
  const auto abort = [&] { fabrics[2].abort("enough"); };
  EXPECT_EQ(broken_ranks(fabrics, abort), 3u);
  std::vector<float> values(10);
  EXPECT_THROW(fabrics[2].all_reduce(values), FabricBroken);  // the fabric stays broken
}

TEST(GrpcFabric, AbortWakesEveryAlgorithmOnBothWays) {
  using Algorithm = CollectiveAlgorithm;
  for (const Algorithm each : {Algorithm::tree, Algorithm::halving_doubling, Algorithm::ring}) {
    for (const bool streams : {false, true}) {
      Fabrics fabrics(4, streams);
      fabrics.on_every_rank([&](GrpcFabric& fabric) {
        fabric.use_collectives({{.kind = CollectiveKind::all_reduce, .algorithm = each}});
      });
      const auto abort = [&] { fabrics[3].abort("enough"); };
      EXPECT_EQ(broken_ranks(fabrics, abort, 1 << 20), 3u);
    }
  }
}

TEST(GrpcFabric, ARankThatGoesWakesTheOthers) {
  Fabrics fabrics(4);
  EXPECT_EQ(broken_ranks(fabrics, [&] { fabrics.close(0); }), 3u);
}

TEST(GrpcFabric, AStrangerIsRefusedAndChangesNothing) {
  Fabrics fabrics(2);
  RunFolder folder;
  const std::string own = "unix:" + folder.path() + "/stranger";
  GrpcFabric stranger(0, 2, own, Secrets{.token = "guess"});
  GrpcFabric victim(1, 2, "unix:" + folder.path() + "/victim", kSecret);
  stranger.connect_next({own, "unix:" + folder.path() + "/victim"});
  std::vector<float> values(1000, 1.0F);
  EXPECT_THROW(stranger.all_reduce(values), FabricBroken);
  GrpcFabric neighbour(0, 2, "unix:" + folder.path() + "/neighbour", kSecret);
  const std::vector<std::string> addresses{"unix:" + folder.path() + "/neighbour",
                                           "unix:" + folder.path() + "/victim"};
  neighbour.connect_next(addresses);
  victim.connect_next(addresses);
  std::vector<float> other(1000, 2.0F);
  std::jthread thread([&] { victim.all_reduce(other); });
  std::vector<float> mine(1000, 1.0F);
  neighbour.all_reduce(mine);
  EXPECT_EQ(mine[999], 3.0F);
}

TEST(GrpcFabric, MeasuresTheRoundTripOfALink) {
  Fabrics fabrics(2);
  EXPECT_EQ(fabrics[0].round_trip(), 0);
  fabrics.on_every_rank([](GrpcFabric& fabric) {
    std::vector<float> values(1, 1.0F);
    fabric.all_reduce(values);
  });
  for (int i = 0; i < 1000 && fabrics[0].round_trip() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GT(fabrics[0].round_trip(), 0);
}

TEST(GrpcFabric, AnAddressThatCannotBeIsAnEnvironmentError) {
  try {
    GrpcFabric fabric(0, 1, "unix:/no/such/folder/socket", kSecret);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
  }
}

TEST(GrpcFabric, AbortEndsTheWaitForANeighbourThatNeverListens) {
  const RunFolder folder;
  GrpcFabric fabric(0, 2, "unix:" + folder.path() + "/0", kSecret);
  const std::vector<std::string> addresses{"unix:" + folder.path() + "/0",
                                           "unix:" + folder.path() + "/1"};
  const std::jthread stopper([&fabric] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    fabric.abort("the run is over");
  });
  EXPECT_THROW(fabric.connect_next(addresses), FabricBroken);
}

}  // namespace
}  // namespace orrery::live
