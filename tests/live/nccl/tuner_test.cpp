// The plugin as NCCL sees it: loaded by dlopen, asked through each version's symbol, with a cost
// table of our own. No NCCL, no GPU.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "live/nccl/tuner_table.hpp"

namespace orrery::live {
namespace {

using Logger = void (*)(int, unsigned long, const char*, int, const char*, ...);
using Costs = std::array<float, 21>;

struct V3 {
  const char* name;
  int (*open)(std::size_t, std::size_t, Logger, void**);
  int (*choose)(void*, int, std::size_t, int, float**, int, int, int*);
  int (*close)(void*);
};
struct V4 {
  const char* name;
  int (*open)(std::size_t, std::size_t, Logger, void**);
  int (*choose)(void*, int, std::size_t, int, float**, int, int, int, int*);
  int (*close)(void*);
};
struct V5 {
  const char* name;
  int (*open)(void**, std::uint64_t, std::size_t, std::size_t, Logger, void*, void*);
  int (*choose)(void*, int, std::size_t, int, float**, int, int, int, int*);
  int (*close)(void*);
  // The function exists from version 6 on; may be null.
};

constexpr int kAllReduce = static_cast<int>(NcclCollective::all_reduce);

class Tuner : public ::testing::Test {
 protected:
  /// Runs before each test: where the set-up of a whole suite fails, its tests count as skipped.
  void SetUp() override {
    setenv("ORRERY_NCCL_TABLE", path().c_str(), 1);
    ASSERT_NE(handle(), nullptr) << dlerror();
  }
  void TearDown() override { unlink(path().c_str()); }

  static const std::string& path() {
    static const std::string one = testing::TempDir() + "orrery_tuner." + std::to_string(getpid());
    return one;
  }
  static void* handle() {
    static void* const one = dlopen(ORRERY_NCCL_TUNER, RTLD_NOW | RTLD_LOCAL);
    return one;
  }
  template <class Version>
  static const Version& symbol(const char* name) {
    return *static_cast<const Version*>(dlsym(handle(), name));
  }

  static void write(const std::string& text) {
    const std::string fresh = path() + ".new";
    std::ofstream(fresh, std::ios::binary) << text;
    ASSERT_EQ(std::rename(fresh.c_str(), path().c_str()), 0);
  }
  static void write_rule(NcclAlgorithm algorithm, std::uint64_t from = 0,
                         std::uint32_t channels = 0) {
    write(print_tuner_table({{.from = from,
                              .rules = {{NcclCollective::all_reduce, 0, 2, algorithm,
                                         NcclProtocol::simple, channels}}}}));
  }

  static Costs fresh_costs() {
    Costs costs;
    for (std::size_t i = 0; i < costs.size(); ++i) costs[i] = static_cast<float>(i + 10);
    return costs;
  }
  /// Entry that became the cheapest; -1: none was changed.
  static int chosen(const Costs& costs) {
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (costs[i] == 0) return static_cast<int>(i);
    }
    return -1;
  }
  static int ask(const V5& tuner, void* context) {
    Costs costs = fresh_costs();
    int channels = 0;
    EXPECT_EQ(tuner.choose(context, kAllReduce, 1 << 20, 1,
                           reinterpret_cast<float**>(costs.data()), 7, 3, 0, &channels),
              0);
    return chosen(costs);
  }
};

constexpr int entry(NcclAlgorithm algorithm) { return 3 * static_cast<int>(algorithm) + 2; }

TEST_F(Tuner, EveryVersionServesTheTable) {
  write_rule(NcclAlgorithm::tree, 0, 4);
  Costs costs = fresh_costs();
  float** const table = reinterpret_cast<float**>(costs.data());
  int channels = 0;
  void* context = nullptr;

  const V3& v3 = symbol<V3>("ncclTunerPlugin_v3");
  EXPECT_STREQ(v3.name, "orrery");
  ASSERT_EQ(v3.open(8, 1, nullptr, &context), 0);
  EXPECT_EQ(v3.choose(context, kAllReduce, 100, 1, table, 7, 3, &channels), 0);
  EXPECT_EQ(chosen(costs), entry(NcclAlgorithm::tree));
  EXPECT_EQ(channels, 4);
  EXPECT_EQ(v3.close(context), 0);

  const V4& v4 = symbol<V4>("ncclTunerPlugin_v4");
  costs = fresh_costs();
  ASSERT_EQ(v4.open(8, 1, nullptr, &context), 0);
  EXPECT_EQ(v4.choose(context, kAllReduce, 100, 1, table, 7, 3, 0, &channels), 0);
  EXPECT_EQ(chosen(costs), entry(NcclAlgorithm::tree));
  EXPECT_EQ(v4.close(context), 0);

  for (const char* name : {"ncclTunerPlugin_v5", "ncclTunerPlugin_v6", "ncclTunerPlugin_v7"}) {
    const V5& tuner = symbol<V5>(name);
    EXPECT_STREQ(tuner.name, "orrery");
    ASSERT_EQ(tuner.open(&context, 7, 8, 1, nullptr, nullptr, nullptr), 0);
    EXPECT_EQ(ask(tuner, context), entry(NcclAlgorithm::tree)) << name;
    EXPECT_EQ(tuner.close(context), 0);
  }
}

TEST_F(Tuner, AReplacedFileHoldsFromItsCallOnAndABrokenOneNever) {
  write_rule(NcclAlgorithm::ring);
  const V5& tuner = symbol<V5>("ncclTunerPlugin_v5");
  void* context = nullptr;
  ASSERT_EQ(tuner.open(&context, 1, 4, 1, nullptr, nullptr, nullptr), 0);
  EXPECT_EQ(ask(tuner, context), entry(NcclAlgorithm::ring));
  write("orrery-collectives 1\nfrom 0\nall_reduce 0 2 no-such-thing\n");
  EXPECT_EQ(ask(tuner, context), entry(NcclAlgorithm::ring)) << "the last good one goes on";
  const TunerRule ring{NcclCollective::all_reduce, 0, 2, NcclAlgorithm::ring,
                       NcclProtocol::simple, 0};
  TunerRule tree = ring;
  tree.algorithm = NcclAlgorithm::tree;
  write(print_tuner_table({{.from = 0, .rules = {ring}}, {.from = 4, .rules = {tree}}}));
  EXPECT_EQ(ask(tuner, context), entry(NcclAlgorithm::ring)) << "call 2";
  EXPECT_EQ(ask(tuner, context), entry(NcclAlgorithm::ring)) << "call 3";
  EXPECT_EQ(ask(tuner, context), entry(NcclAlgorithm::tree)) << "call 4";
  EXPECT_EQ(tuner.close(context), 0);
}

TEST_F(Tuner, WhatNcclCannotDoIsLeftAlone) {
  write_rule(NcclAlgorithm::nvls);
  const V5& tuner = symbol<V5>("ncclTunerPlugin_v5");
  void* context = nullptr;
  ASSERT_EQ(tuner.open(&context, 1, 4, 1, nullptr, nullptr, nullptr), 0);
  Costs costs = fresh_costs();
  costs[static_cast<std::size_t>(entry(NcclAlgorithm::nvls))] = -1;
  const Costs before = costs;
  int channels = 3;
  EXPECT_EQ(tuner.choose(context, kAllReduce, 100, 1, reinterpret_cast<float**>(costs.data()), 7,
                         3, 0, &channels),
            0);
  EXPECT_EQ(costs, before);
  EXPECT_EQ(channels, 3);
  EXPECT_EQ(tuner.close(context), 0);
}

TEST_F(Tuner, ThreadsAskWhileTheFileIsReplaced) {
  write_rule(NcclAlgorithm::ring);
  const V5& tuner = symbol<V5>("ncclTunerPlugin_v5");
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      void* context = nullptr;
      tuner.open(&context, 1, 4, 1, nullptr, nullptr, nullptr);
      while (!stop) {
        const int seen = ask(tuner, context);
        if (seen != entry(NcclAlgorithm::ring) && seen != entry(NcclAlgorithm::tree)) ++wrong;
      }
      tuner.close(context);
    });
  }
  for (int i = 0; i < 100; ++i) write_rule(i % 2 ? NcclAlgorithm::ring : NcclAlgorithm::tree);
  stop = true;
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace orrery::live
