#include "traces/scenario/replay_conditions.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

constexpr const char* kKinds = R"(
speed: simulated
kinds:
  - name: big
    least_gpus: 16
    job:
      model: {preset: llama3-8b}
      sequence_length: 2048
      global_batch: 64
      layout: {tensor: 8, data: 4}
)";

ReplayConditions conditions_of(const std::string& text) {
  ReplayConditions conditions;
  const SourceMap places = load_yaml(text, "c.yaml", conditions);
  complete(conditions, places, "");
  return conditions;
}

TEST(DescribesReplay, WhatNamesALogWhateverElseIsWrong) {
  const std::string file = ::testing::TempDir() + "describes-replay.yaml";
  const auto described = [&file](const char* text) {
    std::ofstream(file) << text;
    return describes_replay(file);
  };
  EXPECT_TRUE(described("trace: jobs.csv\npolcy: fifo\n"));
  EXPECT_TRUE(described("{nodes: 4, trace: jobs.csv}"));
  EXPECT_FALSE(described("name: a\ntrace: {chakra: folder}\n"));
  EXPECT_FALSE(described("name: a\njob: {trace: jobs.csv}\n"));
  EXPECT_FALSE(described("trace: [\n"));
  EXPECT_FALSE(described(""));
  EXPECT_FALSE(describes_replay("/dev/zero"));
  EXPECT_FALSE(describes_replay(::testing::TempDir()));
  std::filesystem::remove(file);
  EXPECT_FALSE(describes_replay(file));
}

TEST(ReplayConditions, AKindIsBySizeAndNameAndWholeReplicas) {
  const ReplayConditions conditions = conditions_of(kKinds);
  EXPECT_EQ(kind_of(conditions, "big-1", 32), 0u);
  EXPECT_FALSE(kind_of(conditions, "small", 32));
  EXPECT_FALSE(kind_of(conditions, "big-1", 8));
  EXPECT_FALSE(kind_of(conditions, "big-1", 36));
}

TEST(ReplayConditions, AReplicaStaysAsItIs) {
  const ReplayConditions conditions = conditions_of(kKinds);
  const Job job = job_on(conditions.kinds(0), 256);
  EXPECT_EQ(job.layout().data(), 32u);
  EXPECT_EQ(job.layout().tensor(), 8u);
  EXPECT_EQ(job.global_batch(), 512u) << "sixteen of each";
  EXPECT_EQ(job.model().layers(), 32u) << "the preset is resolved";
}

TEST(ReplayConditions, WhatCannotBeIsRefusedWithItsPlace) {
  const auto refusal = [](const std::string& text) {
    try {
      conditions_of(text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("speed: simulated\n"),
              ::testing::HasSubstr("c.yaml:1:8: error: simulated speed needs 'kinds'"));
  std::string odd = kKinds;
  odd.replace(odd.find("global_batch: 64"), 16, "global_batch: 63");
  EXPECT_THAT(refusal(odd), ::testing::HasSubstr("c.yaml:9:"));
}

}  // namespace
}  // namespace orrery
