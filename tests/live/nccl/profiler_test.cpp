// The profiler plugin as NCCL sees it: loaded by dlopen, called through each version's symbol. No
// NCCL, no GPU. The structs are those of NCCL's interface as far as the plugin reads them.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "live/nccl/report_receiver.hpp"

namespace orrery::live {
namespace {

using Logger = void (*)(int, unsigned long, const char*, int, const char*, ...);

struct CollectiveCall {
  std::uint64_t sequence;
  const char* function;
  const void* sent;
  void* received;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
};
struct ChannelCall {
  std::uint8_t number;
  std::uint64_t time;
};
/// Event description; of version 4 the type has one byte, and those behind it no meaning.
template <class Type>
struct Described {
  Type type;
  void* parent;
  int rank;
  union {
    CollectiveCall collective;
    ChannelCall channel;
  };
};
template <class Type>
struct Calls {
  int (*start)(void*, void**, Described<Type>*);
  int (*stop)(void*);
  int (*record)(void*, int, std::uint64_t*);
  int (*close)(void*);
};
struct V4 {
  const char* name;
  int (*open)(void**, int*, const char*, std::uint64_t, int, int, int, Logger);
  Calls<std::uint8_t> calls;
};
struct V5 {
  const char* name;
  int (*open)(void**, std::uint64_t, int*, const char*, int, int, int, Logger);
  Calls<std::uint64_t> calls;
};

constexpr int kCollective = 1 << 1, kChannel = 1 << 6, kChannelStop = 22;

class Profiler : public ::testing::Test {
 protected:
  static const std::string& path() {
    static const std::string one = "/tmp/orrery_profiler." + std::to_string(getpid());
    return one;
  }
  static ReportReceiver& receiver() {
    static ReportReceiver one(path());
    return one;
  }
  /// Runs before each test: where the set-up of a whole suite fails, its tests count as skipped.
  void SetUp() override {
    receiver().drain_reports();
    setenv("ORRERY_NCCL_REPORTS", path().c_str(), 1);
    setenv("RANK", "3", 1);
    ASSERT_NE(handle(), nullptr) << dlerror();
  }
  static void* handle() {
    static void* const one = dlopen(ORRERY_NCCL_PROFILER, RTLD_NOW | RTLD_LOCAL);
    return one;
  }
  template <class Version>
  static const Version& symbol(const char* name) {
    return *static_cast<const Version*>(dlsym(handle(), name));
  }

  static CollectiveCall call_of(const char* function, std::uint64_t sequence, int channels) {
    return {.sequence = sequence,
            .function = function,
            .sent = nullptr,
            .received = nullptr,
            .count = 1000,
            .root = 0,
            .type = "ncclBfloat16",
            .channels = static_cast<std::uint8_t>(channels),
            .warps = 8,
            .algorithm = "NVLS_TREE",
            .protocol = "SIMPLE"};
  }
  template <class Type>
  static void* start(const Calls<Type>& calls, void* context, const CollectiveCall& call) {
    Described<Type> described{
        .type = kCollective, .parent = nullptr, .rank = 1, .collective = call};
    void* found = nullptr;
    EXPECT_EQ(calls.start(context, &found, &described), 0);
    EXPECT_EQ(calls.stop(found), 0) << "NCCL stops a collective once it is enqueued";
    return found;
  }
  template <class Type>
  static void* begin_channel(const Calls<Type>& calls, void* context, void* parent, int number,
                             std::uint64_t time) {
    Described<Type> described{.type = kChannel,
                              .parent = parent,
                              .rank = 1,
                              .channel = {static_cast<std::uint8_t>(number), time}};
    void* found = nullptr;
    EXPECT_EQ(calls.start(context, &found, &described), 0);
    return found;
  }
  template <class Type>
  static void end_channel(const Calls<Type>& calls, void* channel, std::uint64_t time) {
    EXPECT_EQ(calls.record(channel, kChannelStop, &time), 0);
    EXPECT_EQ(calls.stop(channel), 0);
  }
  /// Two channels: the first from 1000 to 5000 ns, the second from 2000 to 9000 ns.
  template <class Type>
  static void run_channels(const Calls<Type>& calls, void* context, void* parent) {
    void* const first = begin_channel(calls, context, parent, 0, 1000);
    void* const second = begin_channel(calls, context, parent, 1, 2000);
    ASSERT_NE(first, nullptr);
    ASSERT_NE(second, nullptr);
    end_channel(calls, first, 5000);
    end_channel(calls, second, 9000);
  }
  static std::vector<CollectiveReport> drain_collectives() {
    std::vector<CollectiveReport> found;
    for (const NcclReport& report : receiver().drain_reports()) {
      const auto* done = std::get_if<CollectiveReport>(&report);
      if (done != nullptr) found.push_back(*done);
    }
    return found;
  }
};

TEST_F(Profiler, EveryVersionReportsTheTimeFromTheFirstChannelToTheLast) {
  const V4& v4 = symbol<V4>("ncclProfiler_v4");
  EXPECT_STREQ(v4.name, "orrery");
  void* context = nullptr;
  int mask = 0;
  ASSERT_EQ(v4.open(&context, &mask, "world", 77, 1, 4, 1, nullptr), 0);
  EXPECT_EQ(mask, kCollective | kChannel);
  run_channels(v4.calls, context, start(v4.calls, context, call_of("AllReduce", 5, 2)));
  EXPECT_EQ(v4.calls.close(context), 0);
  std::vector<CollectiveReport> seen = drain_collectives();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(print_report(seen[0]), "done 77 5 1 4 all_reduce 2000 nvls 8000");

  for (const char* name : {"ncclProfiler_v5", "ncclProfiler_v6", "ncclProfiler_v7"}) {
    const V5& profiler = symbol<V5>(name);
    ASSERT_EQ(profiler.open(&context, 78, &mask, "world", 1, 4, 1, nullptr), 0);
    run_channels(profiler.calls, context,
                 start(profiler.calls, context, call_of("AllGather", 6, 2)));
    EXPECT_EQ(profiler.calls.close(context), 0);
    seen = drain_collectives();
    ASSERT_EQ(seen.size(), 1u) << name;
    EXPECT_EQ(print_report(seen[0]), "done 78 6 1 4 all_gather 8000 nvls 8000")
        << "the parts of four ranks";
  }
}

TEST_F(Profiler, ARankTellsThatItHasLoadedNccl) {
  const V5& profiler = symbol<V5>("ncclProfiler_v5");
  void* context = nullptr;
  int mask = 0;
  ASSERT_EQ(profiler.open(&context, 1, &mask, "", 1, 2, 0, nullptr), 0);
  EXPECT_EQ(profiler.calls.close(context), 0);
  const std::vector<NcclReport> reports = receiver().drain_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(std::get<OpenReport>(reports[0]).rank, 3u);
}

TEST_F(Profiler, OtherCollectivesAndLateEventsAreLeftOut) {
  const V5& profiler = symbol<V5>("ncclProfiler_v5");
  void* context = nullptr;
  int mask = 0;
  ASSERT_EQ(profiler.open(&context, 1, &mask, "", 1, 2, 0, nullptr), 0);
  EXPECT_EQ(start(profiler.calls, context, call_of("AlltoAll", 1, 2)), nullptr);
  EXPECT_EQ(begin_channel(profiler.calls, context, nullptr, 0, 1000), nullptr);
  void* const open = start(profiler.calls, context, call_of("AllReduce", 2, 2));
  void* const channel = begin_channel(profiler.calls, context, open, 0, 1000);
  EXPECT_EQ(profiler.calls.close(context), 0) << "with a collective that has not ended";
  end_channel(profiler.calls, channel, 2000);
  EXPECT_TRUE(drain_collectives().empty());
  ASSERT_EQ(profiler.open(&context, 1, &mask, "", 1, 1, 0, nullptr), 0);
  EXPECT_EQ(start(profiler.calls, context, call_of("AllReduce", 1, 2)), nullptr)
      << "a communicator of one rank";
  EXPECT_EQ(profiler.calls.close(context), 0);
}

TEST_F(Profiler, ManyOpenCollectivesCostSomeOfTheReportsAndNoMemory) {
  const V5& profiler = symbol<V5>("ncclProfiler_v5");
  void* context = nullptr;
  int mask = 0;
  ASSERT_EQ(profiler.open(&context, 1, &mask, "", 1, 2, 0, nullptr), 0);
  std::vector<void*> open;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    open.push_back(start(profiler.calls, context, call_of("AllReduce", i, 2)));
  }
  const auto known = std::count_if(open.begin(), open.end(), [](void* each) { return each; });
  EXPECT_EQ(known, 256);
  for (void* each : open) {
    if (each != nullptr) run_channels(profiler.calls, context, each);
  }
  EXPECT_NE(start(profiler.calls, context, call_of("AllReduce", 1000, 2)), nullptr);
  EXPECT_EQ(profiler.calls.close(context), 0);
  EXPECT_EQ(drain_collectives().size(), 256u);
}

TEST_F(Profiler, ThreadsOfTwoCommunicatorsReportEachCollective) {
  const V5& profiler = symbol<V5>("ncclProfiler_v5");
  std::vector<std::jthread> threads;
  constexpr int kCalls = 100;
  for (std::uint64_t id : {1, 2}) {
    threads.emplace_back([&profiler, id] {
      void* context = nullptr;
      int mask = 0;
      profiler.open(&context, id, &mask, "", 1, 2, 0, nullptr);
      for (std::uint64_t i = 0; i < kCalls; ++i) {
        run_channels(profiler.calls, context,
                     start(profiler.calls, context, call_of("Broadcast", i, 2)));
      }
      profiler.calls.close(context);
    });
  }
  threads.clear();
  const std::vector<CollectiveReport> seen = drain_collectives();
  for (const std::uint64_t id : {1, 2}) {
    EXPECT_EQ(std::count_if(seen.begin(), seen.end(),
                            [id](const CollectiveReport& each) { return each.communicator == id; }),
              kCalls);
  }
}

}  // namespace
}  // namespace orrery::live
