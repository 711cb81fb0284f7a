// Failures as rates: the drawn faults follow from counts, seed and cluster.
#include "traces/scenario/failure_model.hpp"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/traces/sample_cluster.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

constexpr double kDay = 86400;

double rate_of(const char* profile, double nodes) {
  Failures failures;
  failures.set_profile(profile);
  return interruption_rate(failure_kinds(failures), nodes);
}

TEST(FailureModel, TheCountsOfTheLlama3ProfileCloseExactly) {
  Failures failures;
  failures.set_profile("llama3");
  double unexpected = 0, all = 0;
  for (const FailureKind& kind : failure_kinds(failures)) {
    all += kind.counted().count();
    if (kind.cause() != "planned") unexpected += kind.counted().count();
    EXPECT_EQ(kind.counted().time(), 54 * kDay) << kind.cause();
  }
  EXPECT_EQ(unexpected, 419);
  EXPECT_EQ(all, 466);
  EXPECT_NEAR(rate_of("llama3", 2048) * 54 * kDay, 466, 1e-9) << "on the cluster it was counted on";
}

TEST(FailureModel, MeansBetweenFailuresAreThoseThatThePaperDerives) {
  EXPECT_NEAR(24000 / (2048 * 6.5), 1.803, 1e-3);
  Failures failures;
  failures.set_profile("rsc-1");
  const FailureKind hardware = failure_kinds(failures)[0];
  EXPECT_NEAR(part_mtbf(hardware) / 2048 / 3600, 1.803, 1e-3) << "16,384 GPUs, hours";
  EXPECT_NEAR(part_mtbf(hardware) / 16384 / 3600, 0.225, 1e-3) << "131,072 GPUs";
  EXPECT_NEAR(1 / rate_of("rsc-1", 128) / 3600, 7.9, 0.01) << "1,024 GPUs, with the job's own term";
}

TEST(FailureModel, ATraceIsReplayedAsItWas) {
  const std::string path = "t.csv";
  const auto faults = read_failure_trace(path,
                                         "time_s,cause,part,index,effect,rate,lasts_s\n"
                                         "60.5,optics,nic,3,rate,0.5,10\n"
                                         "7,power,node,1,down,,3600\n"
                                         "9,crash,rank,5,kill,,\n");
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0].cause(), "power");
  EXPECT_EQ(faults[0].node(), 1u);
  EXPECT_EQ(faults[0].for_(), 3600 * kNanosPerSecond);
  EXPECT_TRUE(faults[1].kill());
  EXPECT_EQ(faults[2].nic(), 3u);
  EXPECT_EQ(faults[2].rate(), 0.5);
  EXPECT_FALSE(faults[1].has_restart());
  const auto timed =
      read_failure_trace(path,
                         "time_s,cause,part,index,effect,rate,lasts_s,detection_s,restart_s\n"
                         "9,crash,rank,5,kill,,,30,900\n");
  EXPECT_EQ(timed[0].detection(), 30 * kNanosPerSecond);
  EXPECT_EQ(timed[0].restart(), 900 * kNanosPerSecond);
  const auto complaint = [&](const std::string& row) -> std::string {
    try {
      read_failure_trace(path, "time_s,cause,part,index,effect,rate,lasts_s\n" + row);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(complaint("x,a,node,1,down,,\n").find("time_s: expected a number"), std::string::npos);
  EXPECT_NE(complaint("1,a,tree,1,down,,\n").find("got 'tree'"), std::string::npos);
  EXPECT_NE(complaint("1,a,node,1,kill,,\n").find("expected down or rate"), std::string::npos);
  EXPECT_THROW(read_failure_trace(path, "time_s,cause\n"), Error);
}

TEST(FailureModel, WhatMeansNothingIsSaidWithItsPlace) {
  const auto complaint = [](const std::string& failures) -> std::string {
    const std::string text =
        "name: x\ncluster: {preset: dgx-h100, nodes: 1}\njob:\n  model: {preset: llama3-8b}\n"
        "  sequence_length: 128\n  global_batch: 8\n  layout: {data: 8}\n"
        "run: {steps: 1}\nfailures: " +
        failures + "\n";
    const auto errors = check_scenario(text, "x.yaml");
    return errors.empty() ? "" : errors.front().what();
  };
  EXPECT_EQ(complaint("{profile: llama3}"), "");
  EXPECT_NE(complaint("{profile: lama3}").find("llama3"), std::string::npos);
  EXPECT_NE(complaint("{kinds: [{cause: a, part: node, mtbf: 1 d, kill: true}]}")
                .find("expected down or rate of a node"),
            std::string::npos);
  EXPECT_NE(complaint("{kinds: [{cause: a, part: job, mtbf: 1 d, rate: 0.5}]}")
                .find("expected kill, stop or slow of a job"),
            std::string::npos);
  EXPECT_NE(complaint("{kinds: [{cause: a, part: nic, mtbf: 1 d, down: true, lasts: 2 s, "
                      "lasts_up_to: 1 s}]}")
                .find("longer than lasts"),
            std::string::npos);
  const auto of_node = [&](const std::string& more) {
    return complaint("{kinds: [{cause: a, part: node, mtbf: 1 d, down: true, " + more + "}]}");
  };
  EXPECT_EQ(of_node("restart: {median: 4 min, p90: 1 h}, repair: {values: [1 h, 2 h]}"), "");
  EXPECT_EQ(of_node("notice: 1 h"), "");
  EXPECT_NE(complaint("{kinds: [{cause: a, part: job, mtbf: 1 d, kill: true, notice: 1 h}]}")
                .find("expected 'notice' of planned work"),
            std::string::npos);
  EXPECT_NE(of_node("restart: {fixed: 4 min, values: [1 h]}").find("one of fixed, median and"),
            std::string::npos);
  EXPECT_NE(of_node("repair: {fixed: 4 min}, lasts: 1 h").find("without 'lasts'"),
            std::string::npos);
  EXPECT_NE(complaint("{kinds: [{cause: a, part: nic, mtbf: 1 d, down: true, "
                      "restart: {fixed: 1 s}}]}")
                .find("a kind that ends ranks"),
            std::string::npos);
}

TEST(FailureModel, RecordsNamePartsAndTheirEffects) {
  EXPECT_EQ(recorded_part("gpu"), FailingPart::gpu);
  EXPECT_EQ(recorded_part("job"), FailingPart::job);
  EXPECT_EQ(recorded_part("rank"), FailingPart::job);
  EXPECT_EQ(recorded_part("rack"), std::nullopt) << "a record names each node of a rack";
  EXPECT_EQ(recorded_part("disk"), std::nullopt);
  EXPECT_EQ(recorded_effect("kill", true), FailureEffect::kill);
  EXPECT_EQ(recorded_effect("kill", false), std::nullopt);
  EXPECT_EQ(recorded_effect("rate", false), FailureEffect::rate);
  EXPECT_EQ(recorded_effect("down", true), std::nullopt);
}

}  // namespace
}  // namespace orrery
