// Whole live runs whose gradients travel in codes: a controller and its agents, as the command line
// starts them.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "policies/run/worker.hpp"
#include "tests/live/lighter.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {
namespace {

const std::string kProgram = ORRERY_BINARY_DIR "/bin/orrery-live";
std::string int4_after(int steps) {
  return "policies=[{name: fixed-codec, parameters: {rules: [{codec: int4}, {bucket_class: "
         "vectors, codec: none}], warm_up_steps: " + std::to_string(steps) + "}}]";
}
const std::string kInt4 = int4_after(2);

/// The shipped example with less to compute.
RunRequest request(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = lighter({"job.pace.micro_batch=40 ms"});
  all.insert(all.end(), overrides.begin(), overrides.end());
  RunRequest out;
  *out.mutable_scenario() =
      load_scenario(ORRERY_SOURCE_DIR "/examples/compressed-4-ranks.yaml", all)
          .scenario;
  out.set_mode("drive");
  out.set_fabric("grpc");
  return out;
}

/// Bytes of fp32 gradient that travelled as int4, as a share of all.
double int4_share(const Report& report) {
  double coded = 0, all = 0;
  for (const CodecUse& use : report.codecs()) {
    all += use.gradient_bytes();
    if (use.codec() == "int4") coded += use.gradient_bytes();
  }
  return all > 0 ? coded / all : 0;
}

TEST(CodecRun, OnceTheSlowLinkIsMeasuredGradientsTravelInFourBits) {
  const Report report = run_in_worker(
      kProgram, request({"run.steps=12", "policies[0].parameters.warm_up_steps=3"}));
  EXPECT_EQ(report.steps_completed(), 12u);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_GE(report.decisions(), 1u);
  EXPECT_GT(int4_share(report), 0.4);
  // A ring sends 3/4 of the gradient twice from each rank.
  double as_it_is = 0;
  for (const CodecUse& use : report.codecs()) as_it_is += 1.5 * use.gradient_bytes();
  EXPECT_LT(report.bytes_on_wire(), 0.65 * as_it_is);
  EXPECT_GT(report.bytes_on_wire(), 0.3 * as_it_is);
}

TEST(CodecRun, WithoutWarmUpTheFirstStepIsCodedToo) {
  const Report report = run_in_worker(kProgram, request({int4_after(0), "run.steps=10"}));
  EXPECT_EQ(report.steps_completed(), 10u);
  EXPECT_GT(int4_share(report), 0.92) << "with nine coded steps of ten it would be below 0.9";
}

TEST(CodecRun, KillsAmongCodesLoseNoMicroBatchAndRanksStayEqual) {
  const Report report = run_in_worker(
      kProgram, request({kInt4, "run.steps=24", "faults=[{at_time: 2 s, rank: 2, kill: true}, "
                                "{at_time: 3 s, rank: 0, kill: true}, "
                                "{at_step: 16, rank: 3, kill: true}]"}));
  EXPECT_EQ(report.steps_completed(), 24u);
  EXPECT_EQ(report.failures_size(), 3);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.parameters_sha256().size(), 64u) << "the same on all ranks, or the run fails";
  EXPECT_GT(int4_share(report), 0.8);
}

TEST(CodecRun, AReproducibleRunTakesNoCodes) {
  try {
    run_in_worker(kProgram, request({kInt4, "live.reproducible=true"}));
    FAIL() << "the run went well";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("live.reproducible"), std::string::npos) << error.message();
  }
  // A policy's code is known only at its decision, so the decision is refused.
  const Report report = run_in_worker(
      kProgram, request({"live.reproducible=true", "live.link_rate=10 MB/s",
                         "run.steps=9", "policies[0].parameters.warm_up_steps=3"}));
  EXPECT_GE(report.decisions(), 1u);
  EXPECT_EQ(report.codecs_size(), 0);
  EXPECT_EQ(report.steps_completed(), 9u);
}

}  // namespace
}  // namespace orrery::live
