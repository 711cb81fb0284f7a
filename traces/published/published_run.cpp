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
#include "traces/published/job_draft.hpp"
#include "traces/published/layout_reader.hpp"
#include "traces/published/published_model.hpp"
#include "traces/published/published_options.hpp"
#include "traces/published/recompute_reader.hpp"
#include "traces/workload/framework.hpp"
#include "traces/workload/layout_check.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/precision.hpp"
#include "traces/workload/sharding.hpp"
#include "traces/workload/stacks.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

/// Converter of one row to a job; members are values that several columns need.
class RunReader {
 public:
  RunReader(const TableRow& row, PublishedRun& run) : row_(row), run_(run), draft_(row, run) {}

  void read() {
    if (!row_.problems.empty()) throw Refusal{fmt::format("{}", fmt::join(row_.problems, "; "))};
    check_missing();
    run_.assumed = row_.defaulted;
    take_framework();
    *job().mutable_model() = published_model(row_, run_.assumed);
    run_.cluster = published_cluster(row_, run_.assumed);
    take_batch();
    LayoutReader layout(draft_);
    layout.read_layout();
    take_capacity();
    take_precision();
    layout.read_sharding();
    take_habits();
    take_options();
    fill_defaults(run_.job);
    state_approximations();
    RecomputeReader(draft_).apply_recompute();
    for (const Problem& problem : job_problems(run_.job)) {
      throw Refusal{problem.path + ": " + problem.message};
    }
  }

 private:
  Job& job() { return run_.job; }
  Layout& layout() { return *run_.job.mutable_layout(); }
  void check_missing() const;
  void take_framework();
  void take_batch();
  void take_capacity();
  void take_precision();
  void take_habits();
  void take_overlap(bool splits, bool late);
  void state_approximations();
  void take_options();
  void take_optimizer();
  void take_loss();
  void take_offload();

  const TableRow& row_;
  PublishedRun& run_;
  JobDraft draft_;
};

/// Reports all missing required values in one sentence.
void RunReader::check_missing() const {
  const std::pair<const char*, bool> columns[] = {
      {"layers", !row_.layers}, {"hidden", !row_.hidden}, {"heads", !row_.heads},
      {"ffn", !row_.ffn},       {"vocab", !row_.vocab},   {"gated_mlp", !row_.gated_mlp}};
  std::vector<std::string> missing;
  for (const auto& [name, is_missing] : columns) {
    if (is_missing) missing.push_back(fmt::format("'{}'", name));
  }
  if (missing.size() < 2) return;  // a single missing column is reported by its reader
  throw Refusal{
      fmt::format("{} are missing: give them, or a model of the catalogue (orrery list "
                  "models)",
                  fmt::join(missing, ", "))};
}

void RunReader::take_framework() {
  const FrameworkHabits* known = framework_habits(row_.framework);
  if (known == nullptr) {
    draft_.add_assumption("the generic software stack for '{}'", shown(row_.framework));
    draft_.behaves_as({.named = "", .stack = "generic", .shard = Sharding::optimizer});
  } else {
    draft_.behaves_as(*known);
  }
  job().set_stack(std::string(draft_.habits().stack));
}

void RunReader::take_batch() {
  job().set_sequence_length(draft_.required_count(row_.seq_len, "seq_len"));
  job().set_global_batch(draft_.required_count(row_.gbs, "gbs"));
  job().set_micro_batch(draft_.or_one(row_.mbs, "mbs"));
  if (!draft_.splits_batch() || job().micro_batch() == 1) return;
  job().set_micro_batch(1);
  draft_.add_assumption("micro-batches of 1");
}

/// Sets the capacity of the experts, which columns take precedence over.
void RunReader::take_capacity() {
  const std::optional<CapacityOption> option = capacity_option(row_.overlap);
  if (!option || !job().model().has_experts()) return;
  std::erase(run_.assumed, "routing balanced, nothing dropped");
  Experts& experts = *job().mutable_model()->mutable_experts();
  if (!row_.capacity) experts.set_capacity(option->factor);
  if (!row_.padded) experts.set_padded(option->pads);
  if (row_.dispatch.empty() && option->masks) {
    experts.set_dispatch(std::string(name_of(ExpertDispatch::einsum)));
  }
}

void RunReader::take_precision() {
  const std::string text = lower_case(row_.precision);
  if (mentions(text, "fp4")) {
    job().set_precision("nvfp4");
  } else if (text.starts_with("mxfp8") || text.starts_with("fp8-mx")) {
    job().set_precision("mxfp8");
  } else if (mentions(text, "fp8")) {
    job().set_precision("fp8");
  } else if (mentions(text, "bf16") || mentions(text, "bfloat16")) {
    job().set_precision("bf16");
    if (mentions(text, "assumed") || mentions(text, "not explicit")) draft_.add_assumption("bf16");
  } else if (mentions(text, "fp16") || mentions(text, "float16")) {
    job().set_precision("fp16");
  } else if (mentions(text, "fp32")) {
    job().set_precision("fp32");
  } else {
    throw Refusal{fmt::format("precision '{}' is not known", shown(row_.precision))};
  }
  std::uint32_t gradient = draft_.habits().gradient_bytes;
  if (mentions(text, "fp32 grad")) gradient = 4;
  // Composer's amp_* keeps fp32 gradients (its FSDP mode DEFAULT), bf16 does not (PURE).
  if (text.starts_with("amp_")) gradient = 4;
  if (precision_of(job()) == JobPrecision::fp32) gradient = 4;
  job().set_gradient_bytes(gradient);
}

void RunReader::take_habits() {
  apply_habits(draft_.habits(), job());
  const bool late = draft_.habits().late_exchange && sharding_of(layout()) != Sharding::nothing;
  take_overlap(layout().tensor() > 1 && layout().sequence_parallel(), late);
  std::optional<std::string> attention = attention_option(row_.attention);
  if (mentions(lower_case(row_.attention), "except 126m")) {
    attention = mentions(row_.model, "126m") ? "unfused" : "flash";
  }
  if (!attention) draft_.add_assumption("flash attention");
  job().set_attention(attention.value_or("flash"));
}

/// Reads the run's flags; the framework's habits replace missing ones.
void RunReader::take_overlap(bool splits, bool late) {
  if (row_.overlap.empty()) {
    const bool exchanges = job().model().has_experts() && layout().expert() > 1;
    draft_.add_assumption("communication {}", overlap_words(draft_.habits(), exchanges));
    return;
  }
  const OverlapOption option = overlap_option(row_.overlap);
  if (!option.understood) {
    draft_.add_assumption("overlap '{}' as the framework's habit", shown(row_.overlap));
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

/// States parts of the model that the chosen kernels and factors do not price.
void RunReader::state_approximations() {
  const Model& model = job().model();
  if (attention_of(job()) == Attention::unfused && model.has_window() &&
      model.window().size() < job().sequence_length()) {
    draft_.add_assumption("windows of {} tokens priced as full attention, which is unfused",
                          model.window().size());
  }
  const Experts& experts = model.experts();
  if (model.has_experts() && routing_of(experts) == ExpertRouting::natural &&
      stack_of(job()).natural_load() <= 1) {
    draft_.add_assumption("natural routing priced as balanced");
  }
}

/// Options that few tables have.
void RunReader::take_options() {
  job().set_adapter_rank(row_.adapter_rank.value_or(adapter_rank(row_.model)));
  take_optimizer();
  if (row_.gradient_bytes) job().set_gradient_bytes(*row_.gradient_bytes);
  if (row_.accumulation_bytes) job().set_accumulation_bytes(*row_.accumulation_bytes);
  take_loss();
  take_offload();
  const std::string compile = lower_case(row_.compile);
  const bool off = compile == "0" || compile == "no" || compile == "off" || compile == "false";
  if (!compile.empty() ? !off : draft_.habits().compiled) job().set_compiled(true);
  const std::uint64_t share = std::uint64_t{1} * job().micro_batch() * layout().data();
  if (row_.grad_accum && share > 0 && job().global_batch() % share == 0 &&
      job().global_batch() / share != *row_.grad_accum && !draft_.splits_batch()) {
    draft_.add_assumption("grad_accum {}, not {}: gbs over mbs x dp", job().global_batch() / share,
                  *row_.grad_accum);
  }
  for (const std::string& column : row_.unread)
    draft_.add_assumption("column '{}' not read", column);
}

void RunReader::take_optimizer() {
  if (row_.optimizer_bytes) {
    job().set_optimizer_bytes(*row_.optimizer_bytes);
  } else if (!row_.optimizer.empty()) {
    const std::optional<double> bytes = optimizer_bytes(row_.optimizer);
    if (!bytes) {
      throw Refusal{fmt::format("optimizer '{}' is not known", shown(row_.optimizer))};
    }
    job().set_optimizer_bytes(*bytes);
  } else if (draft_.habits().optimizer_bytes) {
    job().set_optimizer_bytes(*draft_.habits().optimizer_bytes);
    draft_.add_assumption("{:g} bytes of optimizer state a parameter", job().optimizer_bytes());
  }
}

void RunReader::take_loss() {
  if (row_.loss.empty()) return;
  run_.logit_bytes = logit_bytes(row_.loss);
  if (!run_.logit_bytes) {
    throw Refusal{fmt::format("loss is '{}', expected fused, chunked or plain", shown(row_.loss))};
  }
  use_stack(software_stack(job().stack()), run_);
}

void RunReader::take_offload() {
  const std::string offload = lower_case(row_.offload);
  if (offload.empty() && draft_.habits().offload != Offload::none) {
    job().set_offload(std::string(name_of(draft_.habits().offload)));
    draft_.add_assumption("offload {}", job().offload());
  } else if (mentions(offload, "activation")) {
    job().set_offload("activations");
  } else if (mentions(offload, "optimizer") || mentions(offload, "cpu")) {
    job().set_offload("optimizer");
  } else if (!offload.empty() && offload != "none" && offload != "no" && offload != "0") {
    throw Refusal{fmt::format("offload '{}' is not known", shown(row_.offload))};
  }
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

void use_stack(const SoftwareStack& stack, PublishedRun& run) {
  *run.job.mutable_software() = stack;
  if (run.logit_bytes) run.job.mutable_software()->set_logit_bytes(*run.logit_bytes);
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
