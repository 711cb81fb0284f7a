#include "sim/estimates/step/trace_run.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "sim/engine/simgrid_engine.hpp"
#include "tests/data.hpp"
#include "tests/sim/run.hpp"
#include "tests/sim/trace_sample.hpp"

namespace orrery::estimates {
namespace {

using namespace testing;

double seconds(const std::vector<std::string>& files, const std::string& groups = {},
               const Cluster& cluster = sample_cluster(2)) {
  return run_free(trace_of(files, groups), cluster).duration;
}

chakra::Node roofline(std::uint64_t id, std::int64_t flop, std::int64_t bytes,
                      std::initializer_list<std::uint64_t> after = {}) {
  chakra::Node node = make_node(id, chakra::COMP_NODE, after);
  set_int(node, "num_ops", flop);
  set_int(node, "tensor_size", bytes);
  return node;
}

// ---- prices -------------------------------------------------------------------------------------

TEST(TraceRun, ComputationIsTheRooflineOrTheRecordedTime) {
  EXPECT_DOUBLE_EQ(seconds({file_of({roofline(0, 200'000'000'000, 1000)})}), 2e-3);
  EXPECT_DOUBLE_EQ(seconds({file_of({roofline(0, 1000, 3'000'000'000)})}), 3e-3);
  EXPECT_DOUBLE_EQ(seconds({file_of({compute(0, 7)})}), 7e-6);
}

TEST(TraceRun, ARankComputesOneThingAtATimeBesideItsHostAndItsCommunication) {
  chakra::Node host = compute(2, 300);
  set_int(host, "is_cpu_op", 1);
  EXPECT_DOUBLE_EQ(seconds({file_of({compute(0, 100), compute(1, 150), host})}), 300e-6);
  EXPECT_DOUBLE_EQ(seconds({file_of({compute(0, 100), compute(1, 150)})}), 250e-6);
  // 1 MB all-reduce between two GPUs of a node: 1 MB over each NVLink edge, 10 us.
  const std::string both = file_of({compute(0, 100), collective(1, chakra::ALL_REDUCE, 1'000'000)});
  EXPECT_DOUBLE_EQ(seconds({both, both}), 100e-6);
}

TEST(TraceRun, TheClassesOfABoundAreTold) {
  const std::string both =
      file_of({compute(0, 100), collective(1, chakra::ALL_REDUCE, 1'000'000, "", {0})});
  const TraceRunResult result = run_free(trace_of({both, both}), sample_cluster(1));
  ASSERT_EQ(result.classes.size(), 1u);
  EXPECT_DOUBLE_EQ(result.classes[0].compute, 100e-6);
  EXPECT_NEAR(result.classes[0].exposed, 10e-6, 1e-12);
}

// ---- order --------------------------------------------------------------------------------------

TEST(TraceRun, ACollectiveBeginsWhenItsLastMemberHasReachedIt) {
  const auto rank = [](std::uint64_t micros) {
    return file_of({compute(0, micros), collective(1, chakra::ALL_REDUCE, 1'000'000, "", {0})});
  };
  EXPECT_DOUBLE_EQ(seconds({rank(5), rank(40)}), 50e-6);
}

TEST(TraceRun, AMessageDoesNotWaitForItsReceiver) {
  // 1 MB over a NIC: 100 us. The receiver is busy until 300 us, and goes on at once then.
  std::vector<std::string> files(9, file_of({}));
  files[0] = file_of({message(0, true, 8, 1'000'000), compute(1, 50, {0})});
  files[8] = file_of({compute(0, 300), message(1, false, 0, 1'000'000, 0, {0}),
                      compute(2, 10, {1})});
  EXPECT_DOUBLE_EQ(seconds(files), 310e-6);
  files[8] = file_of({message(1, false, 0, 1'000'000), compute(2, 10, {1})});
  EXPECT_DOUBLE_EQ(seconds(files), 150e-6);
}

TEST(TraceRun, MessagesGoBeforeCollectives) {
  std::vector<std::string> files(3, file_of({}));
  files[0] = file_of({collective(0, chakra::ALL_REDUCE, 10'000'000, "1"),
                      collective(1, chakra::ALL_REDUCE, 10'000'000, "1"),
                      message(2, true, 2, 1'000'000)});
  files[1] = file_of({collective(0, chakra::ALL_REDUCE, 10'000'000, "1"),
                      collective(1, chakra::ALL_REDUCE, 10'000'000, "1")});
  files[2] = file_of({message(0, false, 0, 1'000'000), compute(1, 1000, {0})});
  EXPECT_NEAR(seconds(files, R"({"1": [0, 1]})"), 1010e-6, 1e-12);
}

TEST(TraceRun, RanksThatWaitForEachOtherAreNamed) {
  const std::string a = file_of({message(0, false, 1, 8), message(1, true, 1, 8, 0, {0})});
  const std::string b = file_of({message(7, false, 0, 8), message(8, true, 0, 8, 0, {7})});
  try {
    seconds({a, b});
    ADD_FAILURE() << "it ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("wait for each other"), std::string::npos);
  }
}

// ---- collectives by their closed form -----------------------------------------------------------

/// One collective of 1 MiB among so many ranks.
ChakraTrace one_collective(chakra::CollectiveCommType type, std::size_t ranks) {
  return trace_of(std::vector<std::string>(ranks, file_of({collective(0, type, 1 << 20)})));
}

TEST(TraceRun, CollectivesTakeWhatTheirFormulaSays) {
  constexpr double kBytes = 1 << 20, kLatency = 2e-6, kNvlink = 100e9, kNic = 10e9;
  for (const double n : {4.0, 8.0, 16.0}) {
    const bool across = n > 8;  // eight rings leave a node by another NIC each
    const Cluster cluster = across ? sample_cluster(2) : sample_cluster(1, kLatency);
    const double rate = across ? 8 * kNic : kNvlink, latency = across ? 0 : kLatency;
    const auto ranks = static_cast<std::size_t>(n);
    const std::tuple<chakra::CollectiveCommType, double, double> cases[] = {
        {chakra::ALL_REDUCE, 2 * (n - 1) / n, 2 * (n - 1)},
        {chakra::REDUCE_SCATTER, (n - 1) / n, n - 1},
        {chakra::ALL_GATHER, n - 1, n - 1}};
    for (const auto& [type, share, rounds] : cases) {
      const double expected = share * kBytes / rate + rounds * latency;
      EXPECT_NEAR(run_free(one_collective(type, ranks), cluster).duration / expected, 1, 1e-9)
          << type << " " << n;
    }
    const double directly = across ? kBytes / 2 / kNic : kBytes * (n - 1) / n / kNvlink;
    EXPECT_NEAR(run_free(one_collective(chakra::ALL_TO_ALL, ranks), sample_cluster(2),
                         CollectiveAlgorithm::direct)
                        .duration / directly, 1, 1e-9) << n;
  }
}

TEST(TraceRun, ARingOfMessagesIsItsStepsOneAfterTheOther) {
  // Every rank sends to the next, and forwards the received message: three hops of 128 KiB.
  constexpr int kRanks = 4;
  std::vector<std::string> files;
  for (int rank = 0; rank < kRanks; ++rank) {
    const int next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
    files.push_back(file_of(
        {message(0, true, next, 131072, 0), message(1, false, before, 131072, 0),
         compute(2, 7, {1}), message(3, true, next, 131072, 1, {2}),
         message(4, false, before, 131072, 1), compute(5, 7, {4}),
         message(6, true, next, 131072, 2, {5}), message(7, false, before, 131072, 2)}));
  }
  const double expected = 3 * (131072 / 100e9 + 2e-6) + 2 * 7e-6;
  EXPECT_NEAR(seconds(files, {}, sample_cluster(1, 2e-6)) / expected, 1, 1e-9);
}

TEST(TraceRun, RingCollectivesOfTheTestDataTakeWhatTheFormulaSays) {
  const std::string data = data_folder("chakra");
  if (data.empty()) GTEST_SKIP() << kNoData;
  constexpr double kBytes = 1048576, kLatency = 2e-6, kNvlink = 100e9;
  const Cluster cluster = sample_cluster(1, kLatency);
  for (const double n : {4.0, 8.0}) {
    // Share of the buffer over each edge, and rounds. An all-gather's comm_size is one rank's part.
    const std::tuple<const char*, double, double> cases[] = {
        {"all_reduce", 2 * (n - 1) / n, 2 * (n - 1)},
        {"reduce_scatter", (n - 1) / n, n - 1},
        {"all_gather", n - 1, n - 1}};
    for (const auto& [kind, share, rounds] : cases) {
      const ChakraTrace trace = read_chakra(
          {.path = fmt::format("{}/astra-microbench/{}/{}npus_1MB/{}", data, kind, n, kind)});
      const double expected = share * kBytes / kNvlink + rounds * kLatency;
      EXPECT_NEAR(run_free(trace, cluster).duration / expected, 1, 1e-9) << kind << " " << n;
    }
  }
}

TEST(TraceRun, SixteenRanksOfTheTestDataCrossTheirNicsAtTheFormulasRate) {
  const std::string data = data_folder("chakra");
  if (data.empty()) GTEST_SKIP() << kNoData;
  constexpr double kBytes = 1048576, kNic = 10e9;
  const Cluster cluster = sample_cluster(2);
  const std::pair<const char*, double> cases[] = {
      {"all_reduce", 30.0 / 16}, {"reduce_scatter", 15.0 / 16}, {"all_gather", 15}};
  for (const auto& [kind, share] : cases) {
    const ChakraTrace trace = read_chakra(
        {.path = fmt::format("{}/astra-microbench/{}/16npus_1MB/{}", data, kind, kind)});
    // Eight rings, each with an eighth of the bytes, leave a node by another NIC each.
    EXPECT_NEAR(run_free(trace, cluster).duration / (share * kBytes / 8 / kNic), 1, 1e-9) << kind;
  }
  for (const int n : {4, 8, 16}) {
    // Direct algorithm: each NVLink carries its GPU's messages to the others; across two nodes half
    // of the buffer leaves through the NIC.
    const ChakraTrace trace = read_chakra(
        {.path = fmt::format("{}/astra-microbench/all_to_all/{}npus_1MB/all_to_all", data, n)});
    const double expected =
        n == 16 ? kBytes / 2 / kNic : kBytes * (n - 1) / n / 100e9;
    EXPECT_NEAR(run_free(trace, cluster, CollectiveAlgorithm::direct).duration / expected, 1, 1e-9)
        << n;
  }
}

TEST(TraceRun, TheCustomRingOfTheTestDataIsItsFourteenSteps) {
  const std::string data = data_folder("chakra");
  if (data.empty()) GTEST_SKIP() << kNoData;
  const ChakraTrace trace = read_chakra(
      {.path = data + "/custom-coll/custom_ring_allreduce_8npus_1MB/custom_allreduce"});
  // Fourteen sends of 128 KiB one after the other, each behind the last receive, and seven
  // reductions of 7 us.
  const double expected = 14 * (131072 / 100e9 + 2e-6) + 7 * 7e-6;
  EXPECT_NEAR(run_free(trace, sample_cluster(1, 2e-6)).duration / expected, 1, 1e-9);
}

// ---- folded against every rank ------------------------------------------------------------------

double on_simgrid(const std::string& path, bool apart) {
  return numbers_in_child([&] {
           const Cluster cluster = sample_cluster(8, 1e-6);
           const ChakraTrace trace = read_chakra({.path = path});
           const FoldedTrace folded = fold_trace(trace, cluster, apart);
           const TracePlan plan =
               plan_trace(trace, folded, cluster, full_rates(), CollectiveAlgorithm::ring);
           sim::SimGridEngine engine(1, static_cast<std::uint32_t>(plan.links.links.size()));
           return std::vector<double>{run_on(engine, trace, folded, plan, cluster).duration,
                                      static_cast<double>(folded.classes.size())};
         })
      .at(0);
}

TEST(TraceRun, TheStepOfTheTestDataLiesBetweenItsBounds) {
  const std::string data = data_folder("chakra");
  if (data.empty()) GTEST_SKIP() << kNoData;
  const Cluster cluster = sample_cluster(8, 1e-6);
  const ChakraTrace trace = read_chakra({.path = data + "/gpt64.tar.xz"});
  const FoldedTrace folded = fold_trace(trace, cluster, false);
  const TracePlan plan =
      plan_trace(trace, folded, cluster, full_rates(), CollectiveAlgorithm::ring);
  const TraceBounds limits =
      bounds(trace, folded, plan, cluster.gpu_model(), cluster.gpu_model().bf16);
  // Expected by hand for stage 0 (stage 3 computes a little more, and communicates as much). Per
  // rank, of the tensor group of four on two nodes (two rings, each half of the bytes over a NIC):
  // 384 all-gathers of 3 x 2 MiB, 256 reduce-scatters of 3/4 x 8 MiB, one all-reduce of 3/2 x 200
  // MiB. Of the data group of four on one node: 64 all-reduces of 3/2 x 48 MiB and one of 200 MiB,
  // over NVLink. Eight messages of 2 MiB. Rounds of 1 us: 3 a gather or scatter, 6 an all-reduce.
  constexpr double kMiB = 1 << 20, kNic = 10e9, kNvlink = 100e9;
  const double tensor = (384 * 6 + 256 * 6 + 300) * kMiB / 2 / kNic;
  const double data_group = (64 * 72 + 300) * kMiB / kNvlink;
  const double messages = 8 * 2 * kMiB / kNic;
  const double rounds = (384 * 3 + 256 * 3 + 6 + 65 * 6 + 8) * 1e-6;
  EXPECT_NEAR(limits.communication / (tensor + data_group + messages + rounds), 1, 1e-9);
  // 22.4 TFLOP, a twentieth of it bound by memory.
  EXPECT_GT(limits.compute, 22.37e12 / 1e14);
  EXPECT_LT(limits.compute, 22.38e12 / 1e14 + 12.9e9 / 1e12);
  const double step = on_simgrid(data + "/gpt64.tar.xz", false);
  EXPECT_GT(step, std::max(limits.compute, limits.communication));
  EXPECT_LT(step, limits.serial);
  // Four stages of eight micro-batches: three of eleven rounds are bubble, and a stage's own work
  // overlaps with itself at best.
  EXPECT_LT(step, 11.0 / 8 * (limits.compute + limits.communication));
}

TEST(TraceRun, FoldedAndEveryRankAgreeOnTheTestData) {
  const std::string data = data_folder("chakra");
  if (data.empty()) GTEST_SKIP() << kNoData;
  for (const char* path : {"/gpt64.tar.xz", "/stg-gpt8/workload"}) {
    const double folded = on_simgrid(data + path, false);
    EXPECT_NEAR(folded / on_simgrid(data + path, true), 1, 1e-9) << path;
  }
}

}  // namespace
}  // namespace orrery::estimates
