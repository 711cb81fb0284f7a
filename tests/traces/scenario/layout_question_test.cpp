#include "traces/scenario/layout_question.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

LayoutQuestion llama() {
  LayoutQuestion asked;
  asked.model = "llama3-70b";
  asked.cluster = "dgx-h100";
  asked.gpus = 512;
  return asked;
}

std::string refusal(const LayoutQuestion& asked) {
  try {
    scenario_of(asked);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.message();
  }
  return "";
}

TEST(LayoutQuestion, APresetAndANumberAreEnough) {
  const AskedScenario asked = scenario_of(llama());
  const Scenario& scenario = asked.loaded.scenario;
  EXPECT_EQ(scenario.cluster().nodes(), 64u);
  EXPECT_EQ(scenario.job().model().layers(), 80u);
  EXPECT_EQ(scenario.job().global_batch() * scenario.job().sequence_length(), 4u << 20);
  EXPECT_EQ(scenario.job().overlaps().tensor(), 0.7) << "as the framework has it";
  EXPECT_NE(std::find(asked.assumed.begin(), asked.assumed.end(), "stack nemo"),
            asked.assumed.end());
}

TEST(LayoutQuestion, WhatIsSaidIsNotAssumed) {
  LayoutQuestion said = llama();
  said.sequence_length = 4096;
  said.global_batch = 1024;
  said.stack = "megatron-core";
  said.precision = "fp8";
  const AskedScenario asked = scenario_of(said, {"cluster.nodes=32"});
  EXPECT_EQ(asked.loaded.scenario.job().global_batch(), 1024u);
  EXPECT_EQ(asked.loaded.scenario.job().gradient_bytes(), 4u) << "as megatron-core has it";
  EXPECT_EQ(asked.loaded.scenario.cluster().nodes(), 32u);
  const std::vector<std::string> left = {"sequence parallelism on", "communication overlapped",
                                         "flash attention"};
  EXPECT_EQ(asked.assumed, left);
}

TEST(LayoutQuestion, AnOverrideReplacesTheFrameworksHabits) {
  EXPECT_NE(scenario_of(llama()).habits, nullptr);
  EXPECT_NE(scenario_of(llama(), {"job.micro_batch=2"}).habits, nullptr);
  for (const char* own : {"job.bucket=1 GiB", "job.overlap=false", "job.overlaps.tensor=0"}) {
    EXPECT_EQ(scenario_of(llama(), {own}).habits, nullptr) << own;
  }
}

TEST(LayoutQuestion, AllThatIsMissingIsToldAtOnce) {
  const std::string said = refusal(LayoutQuestion{});
  for (const char* part : {"a model (", "a cluster (", "a number of GPUs"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

TEST(LayoutQuestion, WhatCannotBeIsRefused) {
  LayoutQuestion asked = llama();
  asked.gpus = 12;
  EXPECT_NE(refusal(asked).find("nearest: 8 or 16"), std::string::npos) << refusal(asked);
  asked.gpus = 4;
  EXPECT_NE(refusal(asked).find("nearest: 8"), std::string::npos) << refusal(asked);
  asked = llama();
  asked.model = "llama3-70";
  EXPECT_NE(refusal(asked).find("did you mean 'llama3-70b'"), std::string::npos) << refusal(asked);
  asked = llama();
  asked.global_batch = 8;
  asked.tokens_per_batch = 1e6;
  EXPECT_NE(refusal(asked).find("given twice"), std::string::npos);
}

TEST(LayoutQuestion, TheLargestModelHasRoomInItsBuckets) {
  LayoutQuestion asked = llama();
  asked.model = "deepseek-v3";
  EXPECT_EQ(refusal(asked), "");
}

}  // namespace
}  // namespace orrery
