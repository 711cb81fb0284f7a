#include "live/group/shared_sums.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include "core/random.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kPatience{20000};

using Memories = std::vector<std::unique_ptr<SharedSums>>;

Memories open_memories(const SharedSizes& sizes) {
  Memories memories;
  memories.push_back(SharedSums::create_memory(sizes));
  for (std::size_t at = 1; at < sizes.members; ++at) {
    memories.push_back(SharedSums::open_memory(memories[0]->memory_place(), at, sizes));
  }
  return memories;
}

/// Runs one thread for each member.
void run_members(std::size_t members, const std::function<void(std::size_t)>& run) {
  std::vector<std::thread> threads;
  for (std::size_t at = 0; at < members; ++at) threads.emplace_back(run, at);
  for (std::thread& each : threads) each.join();
}

/// Returns the array of one member: numbers of very different sizes, so that the order of additions
/// shows in the sum.
template <typename T>
std::vector<T> values_of(std::size_t member, std::size_t count, std::uint32_t seed) {
  Rng random(seed * 1000 + member);
  std::vector<T> values(count);
  for (T& each : values) {
    each = static_cast<T>(random.normal() * std::pow(10, 17 * random.uniform() - 9));
  }
  return values;
}

/// Returns the sum of Gloo's ring: rank r receives the partial sum of a chunk from rank r + 1 and
/// adds its own values; the last rank of a chunk is the one with its number.
template <typename T>
std::vector<T> ring_sum(const std::vector<std::vector<T>>& all) {
  const std::size_t members = all.size(), count = all[0].size();
  std::size_t segments = 2 * members;
  while (segments * (1 << 20) < count * sizeof(T)) segments += members;
  std::size_t segment = 1;  // elements
  while (segment * segments < count) ++segment;
  const std::size_t chunk = segment * (segments / members);
  std::vector<T> sum(count);
  for (std::size_t at = 0; at < count; ++at) {
    std::size_t rank = (at / chunk + members - 1) % members;
    T partial = all[rank][at];
    for (std::size_t hop = 1; hop < members; ++hop) {
      rank = (rank + members - 1) % members;
      partial = static_cast<T>(all[rank][at] + partial);
    }
    sum[at] = partial;
  }
  return sum;
}

/// Sums arrays of these sizes one after the other, and compares every member's sum.
template <typename T>
void expect_ring_sums(const SharedSizes& sizes, const std::vector<std::size_t>& counts) {
  const Memories memories = open_memories(sizes);
  std::vector<std::vector<std::vector<T>>> sums(counts.size());
  for (auto& each : sums) each.resize(sizes.members);
  run_members(sizes.members, [&](std::size_t own) {
    for (std::size_t turn = 0; turn < counts.size(); ++turn) {
      const auto values = values_of<T>(own, counts[turn], static_cast<std::uint32_t>(turn));
      sums[turn][own].resize(counts[turn]);
      memories[own]->add_values<T>(values, sums[turn][own], kPatience);
    }
  });
  for (std::size_t turn = 0; turn < counts.size(); ++turn) {
    std::vector<std::vector<T>> all;
    for (std::size_t at = 0; at < sizes.members; ++at) {
      all.push_back(values_of<T>(at, counts[turn], static_cast<std::uint32_t>(turn)));
    }
    const std::vector<T> expected = ring_sum(all);
    for (std::size_t at = 0; at < sizes.members; ++at) {
      EXPECT_EQ(std::memcmp(sums[turn][at].data(), expected.data(), counts[turn] * sizeof(T)), 0)
          << counts[turn] << " elements, member " << at << " of " << sizes.members;
    }
  }
}

TEST(SharedSums, AreThoseOfARingBitForBit) {
  for (const std::size_t members : {2U, 3U, 4U, 7U}) {
    expect_ring_sums<float>({members, 256, 2}, {1, 2, 15, 16, 17, 63, 64, 65, 1000, 1, 4097});
    expect_ring_sums<double>({members, 4096, 3}, {1, 3, 511, 512, 513, 10000});
    expect_ring_sums<std::int64_t>({members, 1024, 4}, {1, 5000});
  }
  expect_ring_sums<float>({2}, {1, 262144, 3000001, 5});
  expect_ring_sums<float>({3}, {2500000, 786431});
  expect_ring_sums<std::int32_t>({5}, {1000000});
}

TEST(SharedSums, RandomSizesInARow) {
  Rng random(7);
  for (int round = 0; round < 20; ++round) {
    const SharedSizes sizes{2 + random.below(5), 64 * (1 + random.below(40)), 2 + random.below(4)};
    std::vector<std::size_t> counts;
    for (int turn = 0; turn < 20; ++turn) counts.push_back(1 + random.below(3000));
    expect_ring_sums<float>(sizes, counts);
  }
}

TEST(SharedSums, ReachAnotherProcess) {
  const auto memory = SharedSums::create_memory({2});
  const pid_t child = fork();
  if (child == 0) {
    try {
      const auto other = SharedSums::open_memory(memory->memory_place(), 1, {2});
      const std::vector<float> values(100000, 2);
      std::vector<float> sum(values.size());
      other->add_values<float>(values, sum, kPatience);
      _exit(sum.front() == 3 && sum.back() == 3 ? 0 : 1);
    } catch (const std::exception&) {
      _exit(2);
    }
  }
  const std::vector<float> values(100000, 1);
  std::vector<float> sum(values.size());
  memory->add_values<float>(values, sum, kPatience);
  EXPECT_EQ(sum, std::vector<float>(values.size(), 3));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SharedSums, LeaveTheValuesAsTheyAre) {
  const Memories memories = open_memories({2, 256, 2});
  run_members(2, [&](std::size_t own) {
    const std::vector<float> values(1000, 1);
    std::vector<float> sum(values.size());
    memories[own]->add_values<float>(values, sum, kPatience);
    EXPECT_EQ(values, std::vector<float>(1000, 1));
  });
}

TEST(SharedSums, ArraysThatDifferAreAnErrorAtAllMembers) {
  for (const bool same_size : {true, false}) {
    const Memories memories = open_memories({3, 256, 2});
    run_members(3, [&](std::size_t own) {
      std::vector<float> values(same_size ? 200 : 100 + own), sum(values.size());
      std::vector<std::int32_t> others(200), other_sum(200);
      try {
        if (same_size && own == 2) {
          memories[own]->add_values<std::int32_t>(others, other_sum, kPatience);
        } else {
          memories[own]->add_values<float>(values, sum, kPatience);
        }
        ADD_FAILURE() << "no error at member " << own;
      } catch (const std::runtime_error& error) {
        EXPECT_NE(std::string(error.what()).find("expected equal tensors at all ranks"),
                  std::string::npos)
            << error.what();
      }
    });
  }
}

TEST(SharedSums, AnInterruptionEndsAMemberThatWaits) {
  const Memories memories = open_memories({2, 256, 2});
  std::thread waits([&] {
    const std::vector<float> values(1000, 1);
    std::vector<float> sum(values.size());
    EXPECT_THROW(memories[0]->add_values<float>(values, sum, kPatience), SumInterrupted);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto begin = std::chrono::steady_clock::now();
  memories[0]->interrupt_sum();
  waits.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  const std::vector<float> values(10);
  std::vector<float> sum(10);
  EXPECT_THROW(memories[0]->add_values<float>(values, sum, kPatience), SumInterrupted)
      << "later arrays";
}

TEST(SharedSums, AMemberThatDoesNotComeIsATimeout) {
  const Memories memories = open_memories({2, 256, 2});
  const std::vector<float> values(10);
  std::vector<float> sum(10);
  try {
    memories[1]->add_values<float>(values, sum, std::chrono::milliseconds(50));
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 9), "Timed out");
  }
}

TEST(SharedSums, AfterArraysThatDifferLaterOnesAreAdded) {
  constexpr int kRounds = 500;
  for (const std::size_t members : {2U, 3U}) {
    const Memories memories = open_memories({members, 64, 2});
    run_members(members, [&](std::size_t own) {
      Rng random(11);  // the same at all members
      for (int round = 0; round < kRounds; ++round) {
        const std::size_t count = 1 + random.below(40), odd = random.below(members);
        const bool differs = random.below(2) == 0;
        const std::vector<float> values(differs && own == odd ? count + 1 : count, 1);
        std::vector<float> sum(values.size());
        try {
          memories[own]->add_values<float>(values, sum, kPatience);
          ASSERT_FALSE(differs) << "round " << round;
          ASSERT_EQ(sum, std::vector<float>(count, static_cast<float>(members)));
        } catch (const std::runtime_error& error) {
          ASSERT_TRUE(differs) << "round " << round << ": " << error.what();
          ASSERT_EQ(std::string(error.what()).substr(0, 10), "all_reduce");
        }
      }
    });
  }
}

TEST(SharedSums, ATimeoutEndsAllLaterArrays) {
  const Memories memories = open_memories({2, 256, 2});
  const auto problem_of = [&](std::size_t own, std::chrono::milliseconds timeout) {
    const std::vector<float> values(1000, 1);
    std::vector<float> sum(values.size());
    try {
      memories[own]->add_values<float>(values, sum, timeout);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(problem_of(0, std::chrono::milliseconds(20)).substr(0, 9), "Timed out");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(problem_of(1, kPatience).find("has given up"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 2);
  run_members(2, [&](std::size_t own) {
    EXPECT_NE(problem_of(own, kPatience).find("earlier all_reduce"), std::string::npos);
  });
}

TEST(SharedSums, APlaceThatIsGoneIsAnError) {
  std::string place;
  {
    const auto memory = SharedSums::create_memory({2});
    place = memory->memory_place();
  }
  EXPECT_THROW(SharedSums::open_memory(place, 1, {2}), std::runtime_error);
}

TEST(SharedSums, AMemoryOfOtherSizesIsAnError) {
  const auto memory = SharedSums::create_memory({2});
  EXPECT_THROW(SharedSums::open_memory(memory->memory_place(), 1, {3}), std::runtime_error);
  EXPECT_THROW(SharedSums::open_memory("/dev/null", 1, {2}), std::runtime_error);
}

}  // namespace
}  // namespace orrery::live
