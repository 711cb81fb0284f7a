#include "live/fabric/all_reduce.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "live/fabric/fabric.hpp"

namespace orrery::live {
namespace {

using Algorithm = CollectiveAlgorithm;

/// Links in memory. Each holds at most `capacity` bytes, so that who sends waits for who takes.
struct Wires {
  std::size_t capacity = std::numeric_limits<std::size_t>::max();
  std::mutex mutex = {};
  std::condition_variable changed = {};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::byte>> links = {};
  std::size_t moved = 0, breaks_after = std::numeric_limits<std::size_t>::max();  // bytes
};

class WireLinks : public Links {
 public:
  WireLinks(Wires& wires, std::uint32_t rank) : wires_(wires), rank_(rank) {}

  void exchange(std::uint32_t to, std::span<const std::byte> out, std::uint32_t from,
                Inflow in) override {
    std::unique_lock lock(wires_.mutex);
    while (!out.empty() || !in.bytes.empty()) {
      if (wires_.moved > wires_.breaks_after) throw FabricBroken("cut");
      if (push(wires_.links[{rank_, to}], out) | pull(wires_.links[{from, rank_}], in)) {
        wires_.changed.notify_all();
      } else {
        wires_.changed.wait(lock);
      }
    }
  }

 private:
  bool push(std::deque<std::byte>& link, std::span<const std::byte>& out) {
    const std::size_t bytes = std::min(out.size(), wires_.capacity - link.size());
    link.insert(link.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(bytes));
    out = out.subspan(bytes);
    wires_.moved += bytes;
    return bytes > 0;
  }
  static bool pull(std::deque<std::byte>& link, Inflow& in) {
    std::size_t bytes = std::min(in.bytes.size(), link.size());
    bytes -= bytes % in.unit;
    if (bytes == 0) return false;
    const std::vector<std::byte> there(link.begin(),
                                       link.begin() + static_cast<std::ptrdiff_t>(bytes));
    in.take(in.bytes.data(), there.data(), bytes);
    in.bytes = in.bytes.subspan(bytes);
    link.erase(link.begin(), link.begin() + static_cast<std::ptrdiff_t>(bytes));
    return true;
  }

  Wires& wires_;
  const std::uint32_t rank_;
};

template <class T>
using Vectors = std::vector<std::vector<T>>;

template <class T>
Vectors<T> random_vectors(std::uint32_t ranks, std::size_t size) {
  Rng rng(ranks * 1000 + size);
  Vectors<T> out(ranks, std::vector<T>(size));
  for (auto& values : out) {
    for (T& value : values) value = static_cast<T>(1000 * rng.normal());
  }
  return out;
}

/// Returns the number of ranks that learned of the broken links.
template <class T>
int sum(Wires& wires, Algorithm algorithm, Vectors<T>& data) {
  const auto ranks = static_cast<std::uint32_t>(data.size());
  std::atomic<int> broken = 0;
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      WireLinks links(wires, rank);
      try {
        all_reduce(links, algorithm, rank, ranks, std::span(data[rank]));
      } catch (const FabricBroken&) {
        ++broken;
        const std::scoped_lock lock(wires.mutex);
        wires.changed.notify_all();
      }
    });
  }
  threads.clear();
  return broken;
}

class AllReduce : public ::testing::TestWithParam<std::tuple<Algorithm, std::uint32_t>> {
 protected:
  const Algorithm algorithm_ = std::get<0>(GetParam());
  const std::uint32_t ranks_ = std::get<1>(GetParam());
};

constexpr std::size_t kSizes[] = {0, 1, 3, 1000, 4097, 60'001};

TEST_P(AllReduce, EveryRankHoldsTheSumWithTheSameBits) {
  for (const std::size_t size : kSizes) {
    const auto before = random_vectors<float>(ranks_, size);
    auto after = before;
    Wires wires;
    EXPECT_EQ(sum(wires, algorithm_, after), 0);
    for (std::size_t i = 0; i < size; ++i) {
      double expected = 0;
      for (const auto& values : before) expected += values[i];
      ASSERT_NEAR(after[0][i], expected, 1e-2) << i << " of " << size;
    }
    for (const auto& values : after) EXPECT_EQ(values, after[0]) << size;
  }
}

TEST_P(AllReduce, WholeNumbersAreExact) {
  for (const std::size_t size : kSizes) {
    const auto before = random_vectors<std::int64_t>(ranks_, size);
    auto after = before;
    Wires wires;
    EXPECT_EQ(sum(wires, algorithm_, after), 0);
    std::vector<std::int64_t> expected(size, 0);
    for (const auto& values : before) {
      for (std::size_t i = 0; i < size; ++i) expected[i] += values[i];
    }
    for (const auto& values : after) EXPECT_EQ(values, expected) << size;
  }
}

TEST_P(AllReduce, LinksThatHoldLittleChangeNoBit) {
  auto first = random_vectors<float>(ranks_, 1025), second = first;
  Wires wide, narrow{.capacity = 64};
  EXPECT_EQ(sum(wide, algorithm_, first), 0);
  EXPECT_EQ(sum(narrow, algorithm_, second), 0);
  EXPECT_EQ(first, second);
}

TEST_P(AllReduce, ABreakInTheMiddleWakesEveryRank) {
  if (ranks_ == 1) return;
  auto data = random_vectors<float>(ranks_, 1025);
  Wires wires{.capacity = 64};
  wires.breaks_after = 1025 * sizeof(float) / 2;
  EXPECT_EQ(sum(wires, algorithm_, data), static_cast<int>(ranks_));
}

INSTANTIATE_TEST_SUITE_P(All, AllReduce,
                         ::testing::Combine(::testing::Values(Algorithm::ring, Algorithm::tree,
                                                              Algorithm::halving_doubling),
                                            ::testing::Range(1u, 10u)));

TEST(ChooseAllReduce, TheTableDecidesAndWithoutARuleTheSize) {
  EXPECT_EQ(choose_all_reduce({}, 1024, 4), Algorithm::halving_doubling);
  EXPECT_EQ(choose_all_reduce({}, 1e8, 4), Algorithm::ring);
  const CollectiveTable table{
      {.kind = CollectiveKind::all_reduce, .from_ranks = 3, .algorithm = Algorithm::tree},
      {.kind = CollectiveKind::all_gather, .from_ranks = 3, .algorithm = Algorithm::direct}};
  EXPECT_EQ(choose_all_reduce(table, 1e8, 4), Algorithm::tree);
  EXPECT_EQ(choose_all_reduce(table, 1e8, 2), Algorithm::ring);
}

TEST(ChooseAllReduce, ATableMayNameWhatIsHereAndNothingElse) {
  const auto fine = [](CollectiveKind kind, Algorithm algorithm) {
    return objection_to({{.kind = kind, .algorithm = algorithm}}).empty();
  };
  for (const double bytes : {4.0, 1e5, 1e9}) {
    EXPECT_TRUE(fine(CollectiveKind::all_reduce, choose_all_reduce({}, bytes, 4)));
  }
  EXPECT_TRUE(fine(CollectiveKind::all_reduce, Algorithm::automatic));
  EXPECT_TRUE(fine(CollectiveKind::all_gather, Algorithm::nvls));  // never called
  for (const Algorithm each : {Algorithm::nvls, Algorithm::direct, Algorithm::hierarchical}) {
    EXPECT_FALSE(fine(CollectiveKind::all_reduce, each));
  }
}

}  // namespace
}  // namespace orrery::live
