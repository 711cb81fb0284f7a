#include "traces/published/published_run.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/published/published_model.hpp"
#include "traces/published/published_options.hpp"
#include "traces/training/framework.hpp"
#include "traces/training/layout_check.hpp"
#include "traces/training/model.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Turns one row into a job; members are what several columns need.
class RunReader {
 public:
  RunReader(const TableRow& row, PublishedRun& run) : row_(row), run_(run) {}

  void read() {
    if (!row_.problems.empty()) throw Refusal{fmt::format("{}", fmt::join(row_.problems, "; "))};
    check_missing();
    run_.assumed = row_.defaulted;
    take_framework();
    *job().mutable_model() = published_model(row_, run_.assumed);
    run_.cluster = published_cluster(row_, run_.assumed);
    take_batch();
    take_layout();
    take_precision();
    take_sharding();
    take_habits();
    take_options();
    fill_defaults(run_.job);
    take_recompute();
    for (const Problem& problem : job_problems(run_.job)) {
      throw Refusal{problem.path + ": " + problem.message};
    }
  }

 private:
  Job& job() { return run_.job; }
  Layout& layout() { return *run_.job.mutable_layout(); }
  template <class... Values>
  void assume(fmt::format_string<Values...> text, Values&&... values) {
    run_.assumed.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  static std::uint32_t needed(const TableRow::Count& count, std::string_view column) {
    if (!count) throw Refusal{fmt::format("'{}' is missing", column)};
    return *count;
  }
  /// A count, or 1 with a word about it.
  std::uint32_t or_one(const TableRow::Count& count, std::string_view column) {
    if (!count) assume("{} 1", column);
    return count.value_or(1);
  }

  bool splits_batch() const { return habits_.splits_batch && row_.pp.value_or(1) > 1; }
  void check_missing() const;
  void take_framework();
  void take_batch();
  void take_layout();
  void take_chunks();
  void take_expert_tensor();
  void take_precision();
  void take_sharding();
  void take_habits();
  void take_overlap(bool splits, bool late);
  void take_options();
  void take_offload();
  void take_recompute();
  bool fits(const std::string& recompute);
  std::uint32_t least_group();

  const TableRow& row_;
  PublishedRun& run_;
  FrameworkHabits habits_;
};

/// All of what nothing can be said without, in one sentence.
void RunReader::check_missing() const {
  const std::pair<const char*, bool> columns[] = {
      {"layers", !row_.layers}, {"hidden", !row_.hidden}, {"heads", !row_.heads},
      {"ffn", !row_.ffn},       {"vocab", !row_.vocab},   {"gated_mlp", !row_.gated_mlp}};
  std::vector<std::string> missing;
  for (const auto& [name, is_missing] : columns) {
    if (is_missing) missing.push_back(fmt::format("'{}'", name));
  }
  if (missing.size() < 2) return;  // one is named where it is needed
  throw Refusal{fmt::format("{} are missing: give them, or a model of the catalogue (orrery list "
                            "models)",
                            fmt::join(missing, ", "))};
}

void RunReader::take_framework() {
  const FrameworkHabits* known = framework_habits(row_.framework);
  if (known == nullptr) {
    assume("the generic software stack for '{}'", shown(row_.framework));
    habits_ = {.named = "", .stack = "generic", .shard = "optimizer"};
  } else {
    habits_ = *known;
  }
  job().set_stack(std::string(habits_.stack));
}

void RunReader::take_batch() {
  job().set_sequence_length(needed(row_.seq_len, "seq_len"));
  job().set_global_batch(needed(row_.gbs, "gbs"));
  job().set_micro_batch(or_one(row_.mbs, "mbs"));
  if (!splits_batch() || job().micro_batch() == 1) return;
  job().set_micro_batch(1);
  assume("micro-batches of 1");
}

/// Where chunks that hold only the embedding or the loss were counted, fewer than published.
void RunReader::take_chunks() {
  const std::uint32_t stages = layout().pipeline();
  const std::uint32_t published = stages > 1 ? or_one(row_.vpp, "vpp") : 1;
  const std::uint32_t most = std::max(1u, job().model().layers() / stages);
  if (published > most) assume("vpp {}", most);
  layout().set_chunks(std::min(published, most));
}

void RunReader::take_layout() {
  const std::uint32_t gpus = needed(row_.n_gpus, "n_gpus");
  layout().set_tensor(needed(row_.tp, "tp"));
  layout().set_pipeline(needed(row_.pp, "pp"));
  layout().set_context(or_one(row_.cp, "cp"));
  layout().set_expert(row_.moe_experts ? or_one(row_.ep, "ep") : 1);
  take_chunks();
  layout().set_order("pipeline-last");
  if (habits_.by_cost) layout().set_balance("cost");
  const double replica =
      double(layout().tensor()) * layout().pipeline() * layout().context();
  if (row_.dp) {
    layout().set_data(*row_.dp);
  } else {
    layout().set_data(std::max(1u, static_cast<std::uint32_t>(gpus / replica)));
    assume("dp {}", layout().data());
  }
  if (replica * layout().data() != gpus) {
    throw Refusal{fmt::format("tp x pp x cp x dp = {} is not n_gpus = {}",
                              replica * layout().data(), gpus)};
  }
  take_expert_tensor();
  bool split = habits_.splits_tokens;
  if (row_.seq_parallel) {
    split = *row_.seq_parallel == 1;
  } else if (layout().tensor() > 1) {
    assume("sequence parallelism {}", split ? "on" : "off");
  }
  layout().set_sequence_parallel(split);
}

/// Ranks that split an expert, where there are experts.
void RunReader::take_expert_tensor() {
  if (!row_.moe_experts) return;
  const bool inside = layout().expert() <= layout().data() * layout().context();
  if (row_.expert_tensor) {
    layout().set_expert_tensor(*row_.expert_tensor);
  } else if (habits_.splits_experts && inside) {
    layout().set_expert_tensor(layout().tensor());
  }
}

void RunReader::take_precision() {
  const std::string text = lower_case(row_.precision);
  if (has(text, "nvfp4")) {
    job().set_precision("nvfp4");
  } else if (text.starts_with("mxfp8") || text.starts_with("fp8-mx")) {
    job().set_precision("mxfp8");
  } else if (has(text, "fp8")) {
    job().set_precision("fp8");
  } else if (has(text, "bf16") || has(text, "bfloat16")) {
    job().set_precision("bf16");
    if (has(text, "assumed") || has(text, "not explicit")) assume("bf16");
  } else if (has(text, "fp16") || has(text, "float16")) {
    job().set_precision("fp16");
  } else if (has(text, "fp32")) {
    job().set_precision("fp32");
  } else {
    throw Refusal{fmt::format("precision '{}' is none that is known",
                              shown(row_.precision))};
  }
  std::uint32_t gradient = habits_.gradient_bytes;
  if (has(text, "fp32 grad")) gradient = 4;
  // Composer's amp_* keeps fp32 gradients (its FSDP mode DEFAULT), bf16 does not (PURE).
  if (text.starts_with("amp_")) gradient = 4;
  if (job().precision() == "fp32") gradient = 4;
  job().set_gradient_bytes(gradient);
}

void RunReader::take_sharding() {
  const std::string text = lower_case(row_.dp_shard);
  if (text.empty()) {
    layout().set_shard(std::string(habits_.shard));
    if (layout().data() > 1) assume("shard {}", habits_.shard);
  } else if (has(text, "zero-2") || has(text, "zero2") ||
             has(text, "grad/opt")) {
    layout().set_shard("gradients");
  } else if (has(text, "fsdp") || has(text, "hsdp") || has(text, "zero-3") ||
             has(text, "zero3")) {
    layout().set_shard(splits_batch() ? "gradients" : "parameters");
  } else if (text == "none" || text == "ddp" || text == "zero-0" || text == "zero0") {
    layout().set_shard("nothing");
  } else if (has(text, "zero-1") || has(text, "zero1") || has(text, "distributed optimizer")) {
    layout().set_shard("optimizer");
  } else {
    throw Refusal{fmt::format("dp_shard '{}' is none that is known", shown(row_.dp_shard))};
  }
  std::uint32_t group = number_after(text, "shard group ").value_or(
      number_after(text, "within ").value_or(0));
  if (text == "hsdp") {
    group = run_.cluster.node().gpus_per_node();
    assume("shard group {}", group);
  }
  if (has(text, "see label")) {
    group = least_group();
    assume("shard group {}", group);
  }
  const std::uint32_t peers = layout().data() * layout().context();
  if (group >= peers) group = 0;
  layout().set_shard_group(group);
  // As few buckets as can be simulated; FSDP gathers and scatters layer by layer.
  const double ranks = double(layout().tensor()) * layout().pipeline();
  const double parameters = parameter_count(job().model());
  job().set_bucket(std::max(256.0 * 1024 * 1024, 8 * parameters / ranks / 0.9 / kMostBuckets));
  if (layout().shard() == "parameters") {
    const double layer = parameters / job().model().layers() / layout().tensor();
    job().set_bucket(std::max(1.0, job().gradient_bytes() * layer));
  }
}

/// FSDP among the fewest nodes whose memory is at most half full of weights, gradients and
/// optimizer; copies of that among the rest.
std::uint32_t RunReader::least_group() {
  const double states = 16 * parameter_count(job().model());
  double memory = 80e9;
  for (const GpuSpec& gpu : run_.cluster.gpus()) {
    if (gpu.name() == run_.cluster.node().gpu()) memory = gpu.memory();
  }
  const std::uint32_t peers = layout().data() * layout().context();
  std::uint32_t group = std::min(run_.cluster.node().gpus_per_node(), peers);
  while (group < peers && states / group > memory / 2 && peers % (2 * group) == 0) group *= 2;
  return group;
}

void RunReader::take_habits() {
  const bool late = habits_.late_exchange && layout().shard() != "nothing";
  job().set_overlap(habits_.overlap && !late);
  Overlap& overlaps = *job().mutable_overlaps();
  overlaps.set_parameters(habits_.overlap && !late);
  overlaps.set_pipeline(habits_.pipeline);
  const bool splits = layout().tensor() > 1 && layout().sequence_parallel();
  overlaps.set_tensor(splits ? habits_.tensor : 0);
  overlaps.set_expert(job().model().has_experts() ? habits_.expert : 0);
  take_overlap(splits, late);
  std::optional<std::string> attention = attention_option(row_.attention);
  if (has(lower_case(row_.attention), "except 126m")) {
    attention = has(row_.model, "126m") ? "unfused" : "flash";
  }
  if (!attention) assume("flash attention");
  job().set_attention(attention.value_or("flash"));
}

/// The run's own flags; what they do not say is the framework's habit.
void RunReader::take_overlap(bool splits, bool late) {
  if (row_.overlap.empty()) {
    assume("communication {}", habits_.overlap ? "overlapped" : "not overlapped");
    return;
  }
  const OverlapOption option = overlap_option(row_.overlap);
  if (!option.understood) {
    assume("overlap '{}' as the framework's habit", shown(row_.overlap));
    return;
  }
  Overlap& overlaps = *job().mutable_overlaps();
  if (option.gradients) job().set_overlap(*option.gradients && !late);
  if (option.parameters) overlaps.set_parameters(*option.parameters && !late);
  if (option.pipeline) overlaps.set_pipeline(*option.pipeline);
  if (option.tensor) overlaps.set_tensor(splits ? *option.tensor : 0);
  if (option.expert) overlaps.set_expert(*option.expert);
  if (option.graphs && *option.graphs) job().set_compiled(true);
}

/// Options that few tables have.
void RunReader::take_options() {
  job().set_adapter_rank(adapter_rank(row_.model));
  if (row_.optimizer_bytes) {
    job().set_optimizer_bytes(*row_.optimizer_bytes);
  } else if (!row_.optimizer.empty()) {
    const std::optional<double> bytes = optimizer_bytes(row_.optimizer);
    if (!bytes) {
      throw Refusal{fmt::format("optimizer '{}' is none that is known", shown(row_.optimizer))};
    }
    job().set_optimizer_bytes(*bytes);
  }
  if (row_.gradient_bytes) job().set_gradient_bytes(*row_.gradient_bytes);
  if (row_.accumulation_bytes) job().set_accumulation_bytes(*row_.accumulation_bytes);
  take_offload();
  const std::string compile = lower_case(row_.compile);
  const bool off = compile == "0" || compile == "no" || compile == "off" || compile == "false";
  if (!compile.empty() ? !off : habits_.compiled) job().set_compiled(true);
  const std::uint64_t share = std::uint64_t{1} * job().micro_batch() * layout().data();
  if (row_.grad_accum && share > 0 && job().global_batch() % share == 0 &&
      job().global_batch() / share != *row_.grad_accum && !splits_batch()) {
    assume("grad_accum {}, not {}: gbs over mbs x dp", job().global_batch() / share,
           *row_.grad_accum);
  }
  for (const std::string& column : row_.unread) assume("column '{}' not read", column);
}

void RunReader::take_offload() {
  const std::string offload = lower_case(row_.offload);
  if (has(offload, "activation")) {
    job().set_offload("activations");
  } else if (has(offload, "optimizer") || has(offload, "cpu")) {
    job().set_offload("optimizer");
  } else if (!offload.empty() && offload != "none" && offload != "no" && offload != "0") {
    throw Refusal{fmt::format("offload '{}' is none that is known", shown(row_.offload))};
  }
}

void RunReader::take_recompute() {
  const std::uint32_t stages = std::max(1u, layout().pipeline());
  const RecomputeOption option =
      recompute_option(row_.recompute, (job().model().layers() + stages - 1) / stages);
  if (!option.what.empty()) {
    job().set_recompute(option.what);
    job().set_recompute_share(option.share);
    if (!option.assumed.empty()) run_.assumed.push_back(option.assumed);
    run_.recompute_open = !option.assumed.empty();
    return;
  }
  if (!habits_.recompute.empty()) {
    job().set_recompute(std::string(habits_.recompute));
    assume("recompute {}", habits_.recompute);
    return;
  }
  if (habits_.recomputes_to_fit && !fits("none") && !fits("selective")) {
    job().set_recompute("full");
    assume("recompute full, which the compiler does to fit");
    return;
  }
  run_.recompute_open = true;
  // Never full: it would make a case a third slower than its neighbour that fits.
  const bool fits_whole = fits("none");
  job().set_recompute(fits_whole ? "none" : "selective");
  assume("recompute {}", fits_whole ? "none" : "selective, since without it does not fit");
}

/// Whether the step's memory stays below what a framework can use of the GPU.
bool RunReader::fits(const std::string& recompute) {
  constexpr double kUsable = 0.94;  // context, NCCL, fragmentation
  Job tried = job();
  tried.set_recompute(recompute);
  if (!job_problems(tried).empty()) return true;  // refused anyway
  const StepGraph graph(tried);
  double memory = 0;
  for (const GpuSpec& gpu : run_.cluster.gpus()) {
    if (gpu.name() == run_.cluster.node().gpu()) memory = gpu.memory();
  }
  const std::uint32_t micro_batches = graph.micro_batches() / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    if (graph.memory(stage, micro_batches).total().value > kUsable * memory) return false;
  }
  return true;
}

}  // namespace

PublishedRun published_run(const TableRow& row) {
  PublishedRun run;
  try {
    RunReader(row, run).read();
  } catch (const Refusal& refusal) {
    run.refusal = refusal.why;
  } catch (const Error& error) {
    run.refusal = error.message();
  }
  return run;
}

Scenario scenario_of(const PublishedRun& run, const std::string& name) {
  Scenario scenario;
  scenario.set_name(name);
  *scenario.mutable_cluster() = run.cluster;
  *scenario.mutable_job() = run.job;
  scenario.mutable_run()->set_steps(2);
  fill_defaults(scenario);
  return scenario;
}

}  // namespace orrery
