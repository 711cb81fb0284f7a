#include "sim/prediction.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "tests/traces/published_row.hpp"
#include "traces/stacks.hpp"

namespace orrery {
namespace {

TEST(Prediction, ATimeWithItsIntervalsAndMemory) {
  PublishedRun run = published_run(llama_row());
  SoftwareStack& stack = *run.job.mutable_software();
  stack = software_stack("generic");
  stack.set_spread(0.3);
  StackOnGpu& on = *stack.add_on();
  on.add_gpus("H100");
  on.set_compute(1);
  on.set_spread(0.1);
  const Prediction known = predict_run("a", run);
  ASSERT_TRUE(known.supported) << known.reason;
  EXPECT_GT(known.memory_bytes, 1e9);
  EXPECT_NEAR(std::log(known.p90_s / known.iter_time_s), 0.128155, 1e-6);
  EXPECT_NEAR(std::log(known.iter_time_s / known.p10_s), 0.128155, 1e-6);
  EXPECT_NEAR(std::log(known.p97_5_s / known.p2_5_s), 2 * 0.1959964, 1e-6);
  on.set_gpus(0, "B200");
  const Prediction elsewhere = predict_run("a", run);
  EXPECT_EQ(elsewhere.iter_time_s, known.iter_time_s);
  EXPECT_GT(elsewhere.p90_s, known.p90_s);
}

TEST(Prediction, ReasonsNameStackKinAndAssumptions) {
  TableRow row = llama_row();
  row.cp.reset();
  PublishedRun run = published_run(row);
  SoftwareStack& stack = *run.job.mutable_software();
  stack = software_stack("generic");
  stack.set_name("new");
  stack.set_kin("old");
  const std::string reason = predict_run("a", run).reason;
  EXPECT_TRUE(reason.ends_with("stack new with the factors of old; assumed: cp 1")) << reason;
}

TEST(Prediction, OutOfMemoryIsARemark) {
  TableRow row = llama_row();
  row.dp_shard = std::string("none");
  row.n_gpus = 4;
  row.pp = row.dp = row.vpp = 1;
  const Prediction prediction = predict_run("a", published_run(row));
  EXPECT_TRUE(prediction.supported);
  EXPECT_TRUE(prediction.reason.starts_with("out of memory: needs ")) << prediction.reason;
}

TEST(Prediction, ARefusalHasNoNumbers) {
  TableRow row = llama_row();
  row.layers.reset();
  const Prediction prediction = predict_run("a,b", published_run(row));
  EXPECT_EQ(prediction_row(prediction), "\"a,b\",,,,,,,unsupported,'layers' is missing\n");
}

/// One column of a row set to something odd.
void damage(TableRow& row, Rng& rng) {
  static const std::vector<TableRow::Count TableRow::*> counts = {
      &TableRow::layers, &TableRow::hidden, &TableRow::heads, &TableRow::ffn, &TableRow::vocab,
      &TableRow::seq_len, &TableRow::moe_experts, &TableRow::moe_topk, &TableRow::n_gpus,
      &TableRow::gpus_per_node, &TableRow::nics_per_node, &TableRow::tp, &TableRow::pp,
      &TableRow::dp, &TableRow::cp, &TableRow::ep, &TableRow::vpp, &TableRow::mbs,
      &TableRow::gbs};
  static const std::vector<std::string TableRow::*> texts = {
      &TableRow::kv_heads, &TableRow::nvlink, &TableRow::nic_gbps, &TableRow::fabric,
      &TableRow::dp_shard, &TableRow::precision, &TableRow::recompute, &TableRow::gpu};
  static const std::vector<TableRow::Count> numbers = {std::nullopt, 1, 2, 3, 7, 8, 64, 1000,
                                                       10000};
  static const std::vector<std::string> words = {"", "MLA", "0", "99999999999999999999",
                                                 "GB/s", "999999999GB/s", "FSDP shard group 0",
                                                 "within 999999999", "\xff\n", "full"};
  if (rng.below(2) == 0) {
    row.*counts[rng.below(counts.size())] = numbers[rng.below(numbers.size())];
  } else {
    row.*texts[rng.below(texts.size())] = words[rng.below(words.size())];
  }
}

TEST(Prediction, DamagedRowsArePredictedOrRefusedNeverFatal) {
  Rng rng(20261121);
  int refused = 0;
  constexpr int kRows = 300;
  for (int i = 0; i < kRows; ++i) {
    TableRow row = llama_row();
    for (std::uint64_t n = 1 + rng.below(3); n > 0; --n) damage(row, rng);
    const Prediction prediction = predict_run("a", published_run(row));
    refused += !prediction.supported;
    if (prediction.supported) {
      EXPECT_TRUE(std::isfinite(prediction.p97_5_s));
      EXPECT_GT(prediction.iter_time_s, 0);
    } else {
      EXPECT_NE(prediction.reason, "");
    }
  }
  EXPECT_GT(refused, kRows / 4);
  EXPECT_LT(refused, kRows);
}

}  // namespace
}  // namespace orrery
