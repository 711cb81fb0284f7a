#include "live/ring.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::live {
namespace {

/// One queue per link, in memory.
struct Wire {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<std::uint64_t, std::string>> pieces;
};

class WireNeighbours : public Neighbours {
 public:
  WireNeighbours(Wire& out, Wire& in) : out_(out), in_(in) {}
  void send(std::uint64_t tag, std::string_view bytes) override {
    const std::scoped_lock lock(out_.mutex);
    out_.pieces.emplace_back(tag, bytes);
    out_.changed.notify_one();
  }
  std::string receive(std::uint64_t tag) override {
    std::unique_lock lock(in_.mutex);
    in_.changed.wait(lock, [this] { return !in_.pieces.empty(); });
    auto [got, bytes] = std::move(in_.pieces.front());
    in_.pieces.pop_front();
    EXPECT_EQ(got, tag);
    return bytes;
  }

 private:
  Wire& out_;
  Wire& in_;
};

using Vectors = std::vector<std::vector<float>>;

Vectors random_vectors(std::uint32_t ranks, std::size_t size) {
  Rng rng(ranks * 1000 + size);
  Vectors out(ranks, std::vector<float>(size));
  for (auto& values : out) {
    for (float& value : values) value = static_cast<float>(rng.normal());
  }
  return out;
}

void all_reduce(Vectors& data) {
  const auto ranks = static_cast<std::uint32_t>(data.size());
  std::vector<Wire> wires(ranks);
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      WireNeighbours neighbours(wires[rank], wires[(rank + ranks - 1) % ranks]);
      Ring ring(neighbours, rank, ranks);
      ring.all_reduce(data[rank]);
    });
  }
}

class RingSizes : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::size_t>> {};

TEST_P(RingSizes, EveryRankHoldsTheSumWithTheSameBits) {
  const auto [ranks, size] = GetParam();
  const Vectors before = random_vectors(ranks, size);
  Vectors after = before;
  all_reduce(after);
  for (std::size_t i = 0; i < size; ++i) {
    double expected = 0;
    for (const auto& values : before) expected += values[i];
    ASSERT_NEAR(after[0][i], expected, 1e-5) << i;
  }
  for (const auto& values : after) EXPECT_EQ(values, after[0]);
}

TEST_P(RingSizes, TheOrderOfSummationIsFixed) {
  const auto [ranks, size] = GetParam();
  Vectors first = random_vectors(ranks, size), second = first;
  all_reduce(first);
  all_reduce(second);
  EXPECT_EQ(first, second);
}

INSTANTIATE_TEST_SUITE_P(All, RingSizes,
                         ::testing::Combine(::testing::Values(1u, 2u, 3u, 4u, 7u),
                                            ::testing::Values(std::size_t{0}, std::size_t{1},
                                                              std::size_t{3}, std::size_t{1000},
                                                              std::size_t{100'003})));

}  // namespace
}  // namespace orrery::live
