#include "sim/estimates/predict/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "tests/traces/published_row.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
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
  EXPECT_EQ(prediction_row(prediction), "\"a,b\",,,,,,,unsupported,'layers' is missing,,,,\n");
}

TEST(Prediction, StateSaysWhatWasMeasured) {
  TableRow row = llama_row();
  row.framework = "NeMo";
  row.gpu = "H100";
  EXPECT_EQ(predict_run("a", published_run(row)).state, PredictionState::measured);
  row.framework = "my own";
  EXPECT_EQ(predict_run("a", published_run(row)).state, PredictionState::transferred);
}

TEST(Prediction, MeasuredOnlyRefusesWhatIsTransferred) {
  TableRow row = llama_row();
  row.framework = "NeMo";
  row.gpu = "H100";
  EXPECT_TRUE(predict_run("a", published_run(row), true).supported);
  row.framework = "my own";
  const Prediction refused = predict_run("a", published_run(row), true);
  EXPECT_FALSE(refused.supported);
  EXPECT_TRUE(refused.reason.starts_with("--measured-only: expected ")) << refused.reason;
  EXPECT_TRUE(prediction_row(refused).starts_with("a,,,,,,,unsupported,"));
}

/// One column of a row set to something odd.
void damage(TableRow& row, Rng& rng) {
  static const std::vector<TableRow::Count TableRow::*> counts = {&TableRow::layers,
                                                                  &TableRow::hidden,
                                                                  &TableRow::heads,
                                                                  &TableRow::ffn,
                                                                  &TableRow::vocab,
                                                                  &TableRow::seq_len,
                                                                  &TableRow::moe_experts,
                                                                  &TableRow::moe_topk,
                                                                  &TableRow::n_gpus,
                                                                  &TableRow::gpus_per_node,
                                                                  &TableRow::nics_per_node,
                                                                  &TableRow::tp,
                                                                  &TableRow::pp,
                                                                  &TableRow::dp,
                                                                  &TableRow::cp,
                                                                  &TableRow::ep,
                                                                  &TableRow::vpp,
                                                                  &TableRow::mbs,
                                                                  &TableRow::gbs,
                                                                  &TableRow::head_size,
                                                                  &TableRow::window,
                                                                  &TableRow::dense_layers,
                                                                  &TableRow::dense_ffn,
                                                                  &TableRow::shared_experts};
  static const std::vector<std::string TableRow::*> texts = {
      &TableRow::kv_heads, &TableRow::nvlink,    &TableRow::nic_gbps,  &TableRow::fabric,
      &TableRow::dp_shard, &TableRow::precision, &TableRow::recompute, &TableRow::gpu,
      &TableRow::latent,   &TableRow::balance};
  static const std::vector<TableRow::Count> numbers = {std::nullopt, 1,    2,    3, 7, 8,
                                                       64,           1000, 10000};
  static const std::vector<std::string> words = {"",
                                                 "MLA",
                                                 "0",
                                                 "99999999999999999999",
                                                 "GB/s",
                                                 "999999999GB/s",
                                                 "FSDP shard group 0",
                                                 "within 999999999",
                                                 "\xff\n",
                                                 "full"};
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

// ---- properties over random configurations ------------------------------------------------------

/// A dense model on up to 64 GPUs, everything said.
TableRow random_row(Rng& random) {
  const auto one_of = [&](std::initializer_list<std::uint32_t> values) {
    return *(values.begin() + random.below(values.size()));
  };
  TableRow row = llama_row();
  row.n_params_b.reset();
  row.layers = one_of({16, 32, 48});
  row.hidden = one_of({2048, 4096, 8192});
  row.heads = *row.hidden / 128;
  row.kv_heads = std::to_string(std::min(8u, *row.heads));
  row.ffn = 4 * *row.hidden;
  row.vocab = one_of({32000, 128256});
  row.seq_len = one_of({2048, 8192});
  row.tp = one_of({1, 2, 4, 8});
  row.pp = one_of({1, 2, 4});
  row.dp = one_of({1, 2, 4});
  row.vpp = 1;
  row.n_gpus = *row.tp * *row.pp * *row.dp;
  row.gpus_per_node = std::min(8u, *row.n_gpus);
  row.nics_per_node = *row.gpus_per_node;
  row.mbs = one_of({1, 2});
  row.gbs = *row.mbs * *row.dp * one_of({4, 8});
  row.dp_shard = random.below(2) == 0 ? "none" : "distributed optimizer";
  row.precision = random.below(3) == 0 ? "fp8" : "bf16";
  constexpr const char* kFrameworks[] = {"NeMo/Megatron-Core", "Megatron-LM 2022", "PyTorch FSDP",
                                         "something new"};
  row.framework = kFrameworks[random.below(4)];
  return row;
}

/// The same run on a GPU of the user's own, made from the catalogue's.
PublishedRun on_own_gpu(PublishedRun run, const std::string& name, void (*change)(GpuSpec&)) {
  GpuSpec own;
  for (const GpuSpec& gpu : run.cluster.gpus()) {
    if (gpu.name() == run.cluster.node().gpu()) own = gpu;
  }
  own.set_name(name);
  change(own);
  run.cluster.clear_gpus();
  *run.cluster.add_gpus() = own;
  run.cluster.mutable_node()->set_gpu(name);
  return run;
}

double seconds(const PublishedRun& run) {
  const Prediction prediction = predict_run("a", run);
  EXPECT_TRUE(prediction.supported) << prediction.reason;
  return prediction.iter_time_s;
}

/// Ten comparisons each; ORRERY_CONFIGURATIONS asks for more.
int configurations() {
  const char* const asked = std::getenv("ORRERY_CONFIGURATIONS");
  return asked == nullptr ? 1000 : std::atoi(asked);
}
constexpr double kRounding = 1 + 1e-9;

TEST(PredictionProperties, NamesChangeNothingAndMoreOfAnythingSlowsNothing) {
  Rng random(11);
  const std::pair<const char*, void (*)(GpuSpec&)> better[] = {
      {"bf16", [](GpuSpec& g) { g.set_bf16(1.3 * g.bf16()); }},
      {"fp8", [](GpuSpec& g) { g.set_fp8(1.3 * g.fp8()); }},
      {"memory bandwidth", [](GpuSpec& g) { g.set_memory_bandwidth(1.3 * g.memory_bandwidth()); }},
      {"NVLink", [](GpuSpec& g) { g.set_nvlink(1.5 * g.nvlink()); }},
      {"memory", [](GpuSpec& g) { g.set_memory(2 * g.memory()); }},
  };
  for (int i = 0; i < configurations(); ++i) {
    const TableRow row = random_row(random);
    const PublishedRun run = published_run(row);
    ASSERT_EQ(run.refusal, "");
    const double time = seconds(run);
    EXPECT_EQ(seconds(on_own_gpu(run, "Own", [](GpuSpec&) {})), time) << i;
    for (const auto& [what, change] : better) {
      EXPECT_LE(seconds(on_own_gpu(run, "Own", change)), time * kRounding) << what << " " << i;
    }
  }
}

TEST(PredictionProperties, LessWorkSlowsNothing) {
  Rng random(12);
  const std::pair<const char*, void (*)(TableRow&)> less[] = {
      {"layers", [](TableRow& row) { row.layers = *row.layers / 2; }},
      {"vocabulary", [](TableRow& row) { row.vocab = *row.vocab / 2; }},
      {"micro-batches", [](TableRow& row) { row.gbs = *row.gbs / 2; }},
      {"faster NICs", [](TableRow& row) { row.nic_gbps = "800"; }},
  };
  for (int i = 0; i < configurations(); ++i) {
    const TableRow row = random_row(random);
    const double time = seconds(published_run(row));
    for (const auto& [what, change] : less) {
      // Gradients go in whole buckets: with one fewer, less of their exchange may be hidden.
      if (std::string_view(what) == "vocabulary" && *row.dp > 1) continue;
      TableRow changed = row;
      change(changed);
      EXPECT_LE(seconds(published_run(changed)), time * kRounding) << what << " " << i;
    }
    // Twice the GPUs at as much work for each; a sharded update is less work, and left out.
    if (row.dp_shard != "none" || row.framework == "PyTorch FSDP" || *row.n_gpus < 8) continue;
    TableRow twice = row;
    twice.n_gpus = 2 * *row.n_gpus;
    twice.dp = 2 * *row.dp;
    twice.gbs = 2 * *row.gbs;
    EXPECT_GE(seconds(published_run(twice)) * kRounding, time) << i;
  }
}

/// A run that does not give its recomputation is out of memory only if no recomputation would
/// suffice.
TEST(Prediction, RecomputationThatIsNotSaidMayBeWhatMakesARunFit) {
  TableRow row = llama_row();
  row.recompute = "none";
  EXPECT_FALSE(predict_run("a", published_run(row)).fits);
  row.recompute = "recipe";
  EXPECT_TRUE(predict_run("a", published_run(row)).fits);
}

/// An omitted option gets the value of its neighbours: no case differs by a third from the given
/// one.
TEST(PredictionProperties, AnOptionThatIsNotSaidMakesNoJump) {
  Rng random(13);
  for (int i = 0; i < configurations() / 4; ++i) {
    const TableRow row = random_row(random);
    const double time = seconds(published_run(row));
    for (std::string TableRow::*option : {&TableRow::recompute, &TableRow::attention}) {
      TableRow silent = row;
      (silent.*option).clear();
      const double other = seconds(published_run(silent));
      EXPECT_LT(std::abs(std::log(other / time)), 0.25) << i;
    }
  }
}

/// Llama 3.1 70B without a pipeline.
TableRow flat_row() {
  TableRow row = llama_row();
  row.tp = row.dp = 8;
  row.pp = row.vpp = 1;
  return row;
}

TEST(Prediction, ReservedMemoryHasAnInterval) {
  const Prediction prediction = predict_run("a", published_run(flat_row()));
  EXPECT_GT(prediction.reserved_bytes, prediction.memory_bytes);
  EXPECT_GE(prediction.reserved_p10, prediction.memory_bytes);
  EXPECT_LT(prediction.reserved_p10, prediction.reserved_bytes);
  EXPECT_GT(prediction.reserved_p90, prediction.reserved_bytes);
  const std::string line = prediction_row(prediction);
  EXPECT_EQ(std::count(line.begin(), line.end(), ','),
            std::count(prediction.reason.begin(), prediction.reason.end(), ',') + 12);
}

TEST(Prediction, TheLossOfARowChangesItsMemoryAlone) {
  TableRow row = flat_row();
  const Prediction usual = predict_run("a", published_run(row));
  row.loss = std::string("plain");
  const Prediction plain = predict_run("a", published_run(row));
  row.loss = std::string("fused");
  const Prediction fused = predict_run("a", published_run(row));
  EXPECT_NEAR(plain.memory_bytes - fused.memory_bytes, 8192 * (128256 / 8.0) * (16 - 2), 1);
  EXPECT_EQ(plain.iter_time_s, usual.iter_time_s);
  EXPECT_EQ(plain.p10_s, usual.p10_s) << "the interval is that of the shipped stack";
  EXPECT_EQ(plain.state, usual.state);
}

TEST(Prediction, ARowWithoutItsRecomputationFitsIfItCan) {
  TableRow row = flat_row();
  row.dp_shard = std::string("FSDP");
  row.mbs = 16;
  EXPECT_FALSE(predict_run("a", published_run(row)).fits) << "without recomputation";
  row.recompute.clear();
  const Prediction open = predict_run("a", published_run(row));
  EXPECT_TRUE(open.fits);
  EXPECT_TRUE(open.reason.starts_with("out of memory unless more is recomputed")) << open.reason;
}

TEST(Prediction, WhatDoesNotFitHasItsStatusAndARemedy) {
  TableRow row = llama_row();
  row.dp_shard = std::string("none");
  row.n_gpus = 4;
  row.pp = row.dp = row.vpp = 1;
  const Prediction prediction = predict_run("a", published_run(row));
  EXPECT_FALSE(prediction.fits);
  EXPECT_NE(prediction_row(prediction).find(",out-of-memory,"), std::string::npos);
  EXPECT_NE(prediction.reason.find("would fit with "), std::string::npos) << prediction.reason;
  TableRow lean = llama_row();
  lean.recompute = std::string("full");
  EXPECT_TRUE(predict_run("a", published_run(lean)).fits);
}

}  // namespace
}  // namespace orrery::estimates
