#include "live/training/gradient_exchange.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "tests/live/codec/all_rules.hpp"
#include "tests/live/loop_fabric.hpp"

namespace orrery::live {
namespace {

using Vectors = std::vector<std::vector<float>>;

/// A table, a bias, a matrix of odd size and a bias.
const std::vector<GradientTensor> kTensors = {
    {.offset = 0, .rows = 16, .columns = 20, .bucket_class = kEmbeddings},
    {.offset = 320, .rows = 37, .columns = 1, .bucket_class = kVectors},
    {.offset = 357, .rows = 37, .columns = 29, .bucket_class = kMatrices},
    {.offset = 1430, .rows = 3, .columns = 1, .bucket_class = kVectors}};
constexpr std::size_t kSize = 1433;

Vectors gradients(std::uint32_t ranks, int step) {
  Vectors out;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    out.push_back(gradient_like(kSize, Rng(1000u * static_cast<unsigned>(step) + rank)));
  }
  return out;
}

std::vector<double> sum_of(const Vectors& vectors) {
  std::vector<double> sum(kSize, 0);
  for (const auto& values : vectors) {
    for (std::size_t i = 0; i < kSize; ++i) sum[i] += values[i];
  }
  return sum;
}

TEST(GradientExchange, AllRanksEndWithTheSameBitsAndLoseNothingForGood) {
  constexpr int kSteps = 12;
  for (const std::uint32_t ranks : {1u, 2u, 3u, 4u}) {
    for (const CodecRule& rule : all_rules()) {
      SCOPED_TRACE(name_of(rule) + ", ranks: " + std::to_string(ranks));
      std::vector<Vectors> results(kSteps, Vectors(ranks));
      LoopHub hub(ranks);
      on_loop(hub, [&](LoopFabric& fabric) {
        GradientExchange exchange(kTensors, 2000);
        for (int step = 0; step <= kSteps; ++step) {
          // The last step sends nothing new and has no code: the values left out arrive.
          const bool last = step == kSteps;
          auto values = last ? std::vector<float>(kSize) : gradients(ranks, step)[fabric.rank()];
          const std::vector<CodecRule> rules = {last ? CodecRule{} : rule};
          exchange.reduce(fabric, {static_cast<Step>(step), 0, rules}, values);
          if (!last) results[static_cast<std::size_t>(step)][fabric.rank()] = values;
          if (last && fabric.rank() == 0) results.push_back({values});
        }
      });
      std::vector<double> balance(kSize, 0), size(kSize, 0);
      for (int step = 0; step <= kSteps; ++step) {
        const Vectors& seen = results[static_cast<std::size_t>(step)];
        for (const auto& values : seen) ASSERT_EQ(values, seen[0]) << "step " << step;
        const std::vector<double> nothing(kSize);
        const auto sent = step < kSteps ? sum_of(gradients(ranks, step)) : nothing;
        for (std::size_t i = 0; i < kSize; ++i) {
          balance[i] += sent[i] - seen[0][i];
          size[i] += std::abs(sent[i]) + std::abs(seen[0][i]);
        }
      }
      if (!rule.error_feedback || ranks == 1) continue;
      for (std::size_t i = 0; i < kSize; ++i) {
        const double allowed = rule.codec == Codec::power_sgd ? 1e-2 : 1e-5;
        ASSERT_NEAR(balance[i], 0, allowed * (size[i] + 1)) << i;
      }
    }
  }
}

TEST(GradientExchange, BytesAreThoseThatThePolicyExpects) {
  for (const Codec codec : {Codec::bf16, Codec::int8, Codec::int4, Codec::top_k}) {
    for (const std::uint32_t ranks : {2u, 4u}) {
      const CodecRule rule{.codec = codec};
      LoopHub hub(ranks);
      double sent = 0;
      on_loop(hub, [&](LoopFabric& fabric) {
        GradientExchange exchange(kTensors, 1e9);
        std::vector<float> values = gradients(ranks, 0)[fabric.rank()];
        exchange.reduce(fabric, {.rules = {&rule, 1}}, values);
        if (fabric.rank() == 0) sent = static_cast<double>(fabric.bytes_sent());
      });
      EXPECT_NEAR(sent, exchange_bytes(rule, kSize, ranks), 40.0 * ranks) << codec_name(codec);
    }
  }
}

TEST(GradientExchange, SaysWhatSummedWhatWentWithoutACode) {
  const CodecRule int4{.codec = Codec::int4};
  const CodecRule plain_vectors{.bucket_class = kVectors, .codec = Codec::none};
  const auto algorithm = [](const std::vector<CodecRule>& rules) {
    LoopHub hub(2);
    CollectiveAlgorithm said{};
    on_loop(hub, [&](LoopFabric& fabric) {
      GradientExchange exchange(kTensors, 1e9);
      std::vector<float> values = gradients(2, 0)[fabric.rank()];
      exchange.reduce(fabric, {.rules = rules}, values);
      if (fabric.rank() == 0) said = exchange.algorithm();
    });
    return said;
  };
  EXPECT_EQ(algorithm({}), CollectiveAlgorithm::ring);
  EXPECT_EQ(algorithm({int4, plain_vectors}), CollectiveAlgorithm::ring);
  EXPECT_EQ(algorithm({int4}), CollectiveAlgorithm::automatic);
}

TEST(GradientExchange, BesideTheCallerItGivesTheSameBits) {
  const std::vector<CodecRule> rules = {{.codec = Codec::int4},
                                        {.bucket_class = kVectors, .codec = Codec::none}};
  Vectors direct(3), beside(3);
  for (const bool started : {false, true}) {
    LoopHub hub(3);
    on_loop(hub, [&](LoopFabric& fabric) {
      GradientExchange exchange(kTensors, 1500);
      for (Step step = 0; step < 3; ++step) {
        std::vector<float> values = gradients(3, static_cast<int>(step))[fabric.rank()];
        if (started) {
          const auto now = Clock::now();
          exchange.start(fabric, {step, 0, rules}, values, now, now + std::chrono::milliseconds(3));
          exchange.finish_exchange();
        } else {
          exchange.reduce(fabric, {step, 0, rules}, values);
        }
        (started ? beside : direct)[fabric.rank()] = values;
      }
    });
  }
  EXPECT_EQ(direct, beside);
}

TEST(GradientExchange, AStepThatIsDoneAgainForgetsTheFirstAttempt) {
  const std::vector<CodecRule> rules = {{.codec = Codec::int4}};
  Vectors once, again;
  for (const bool repeat : {false, true}) {
    LoopHub hub(2);
    on_loop(hub, [&](LoopFabric& fabric) {
      GradientExchange exchange(kTensors, 1e9);
      for (Step step = 0; step < 4; ++step) {
        for (int attempt = 0; attempt < (repeat && step == 2 ? 2 : 1); ++attempt) {
          std::vector<float> values = gradients(2, static_cast<int>(step))[fabric.rank()];
          exchange.reduce(fabric, {step, 0, rules}, values);
          if (fabric.rank() == 0 && step == 3) (repeat ? again : once).push_back(values);
        }
      }
    });
  }
  EXPECT_EQ(once, again);
}

TEST(GradientExchange, ABrokenFabricEndsIt) {
  const std::vector<CodecRule> rules = {{.codec = Codec::int8}};
  LoopHub hub(2);
  int broken = 0;
  on_loop(hub, [&](LoopFabric& fabric) {
    GradientExchange exchange(kTensors, 1e9);
    std::vector<float> values = gradients(2, 0)[fabric.rank()];
    exchange.reduce(fabric, {0, 0, rules}, values);
    hub.meeting.arrive_and_wait();
    if (fabric.rank() == 1) return fabric.abort("gone");
    const auto now = Clock::now();
    exchange.start(fabric, {1, 0, rules}, values, now, now);
    try {
      exchange.finish_exchange();
    } catch (const FabricBroken&) {
      ++broken;
    }
  });
  EXPECT_EQ(broken, 1);
}

TEST(GradientExchange, WithFewerRanksWhatTheSurvivorsHeldBackStillArrives) {
  const std::vector<CodecRule> rules = {{.codec = Codec::int4}};
  LoopHub three(3), two(2);
  Vectors sums(2);
  Vectors first(3);
  on_loop(three, [&](LoopFabric& fabric) {
    GradientExchange exchange(kTensors, 1e9);
    std::vector<float> values = gradients(3, 0)[fabric.rank()];
    exchange.reduce(fabric, {0, 0, rules}, values);
    first[fabric.rank()] = values;
    if (fabric.rank() == 2) return;
    LoopFabric survivors(two, fabric.rank());
    std::vector<float> nothing(kSize);
    exchange.reduce(survivors, {1, 1, {}}, nothing);
    sums[fabric.rank()] = nothing;
  });
  EXPECT_EQ(sums[0], sums[1]);
  // The values that ranks 0 and 1 left out arrived late: the difference is smaller than before.
  const std::vector<double> wanted = sum_of(gradients(3, 0));
  double before = 0, after = 0;
  for (std::size_t i = 0; i < kSize; ++i) {
    before += std::pow(wanted[i] - first[0][i], 2);
    after += std::pow(wanted[i] - first[0][i] - sums[0][i], 2);
  }
  EXPECT_LT(after, 0.7 * before);
}

TEST(GradientExchange, TheSquaresAreThoseOfTheOwnGradientAndOfTheSum) {
  LoopHub hub(2);
  std::vector<double> seen(2);
  on_loop(hub, [&](LoopFabric& fabric) {
    GradientExchange exchange(kTensors, 1e9);
    // Mean 1; each rank is 0.5 away from it: the variance is a quarter of the mean's square.
    std::vector<float> values(kSize);
    for (std::size_t i = 0; i < kSize; ++i) values[i] = (i + fabric.rank()) % 2 == 0 ? 1.5F : 0.5F;
    exchange.reduce(fabric, {}, values);
    seen[fabric.rank()] = 4 * exchange.own_square() / exchange.total_square() - 1;
  });
  EXPECT_NEAR(seen[0], 0.25, 0.01);
  EXPECT_NEAR(seen[1], 0.25, 0.01);
}

TEST(GradientTensors, ClassesFollowNameAndShape) {
  const std::vector<Tensor> model = {{"embedding", 0, 4, 8}, {"up.bias", 32, 4, 1},
                                     {"up.weight", 36, 4, 4}};
  const auto tensors = gradient_tensors(model);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].bucket_class, kEmbeddings);
  EXPECT_EQ(tensors[1].bucket_class, kVectors);
  EXPECT_EQ(tensors[2].bucket_class, kMatrices);
  EXPECT_EQ(tensors[2].offset, 36u);
}

TEST(CutBuckets, OneRuleAndALargeBucketGiveTheWholeGradient) {
  EXPECT_EQ(cut_buckets(kTensors, {}, 1e9).size(), 1u);
  const auto small = cut_buckets(kTensors, {}, 4 * 400);
  ASSERT_EQ(small.size(), 3u);
  EXPECT_EQ(small[0].count, 357u);
  std::size_t next = 0;
  for (const GradientBucket& bucket : small) {
    EXPECT_EQ(bucket.offset, next);
    next += bucket.count;
  }
  EXPECT_EQ(next, kSize);
}

TEST(CutBuckets, PowerSgdTakesEveryMatrixForItselfAndLeavesVectorsAlone) {
  const std::vector<CodecRule> rules = {{.codec = Codec::power_sgd}};
  const auto buckets = cut_buckets(kTensors, rules, 1e9);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].rule.codec, Codec::power_sgd);
  EXPECT_EQ(buckets[1].rule.codec, Codec::none);
  EXPECT_EQ(buckets[2].columns, 29u);
}

}  // namespace
}  // namespace orrery::live
