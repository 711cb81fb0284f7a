#include "sim/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimate.hpp"
#include "topologies/builder.hpp"
#include "traces/csv.hpp"
#include "traces/layout_check.hpp"
#include "traces/stacks.hpp"

namespace orrery {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
/// Quantiles of the normal distribution: 90% and 97.5%.
constexpr double kP90 = 1.2815515655446004, kP97_5 = 1.959963984540054;

/// Column names and habits that every run leaves open are no assumptions.
bool is_complete(const PublishedRun& run) {
  for (const std::string& each : run.assumed) {
    if (!each.starts_with("column ") && !each.starts_with("routing ")) return false;
  }
  return true;
}

std::string distance_of(const PublishedRun& run, const GpuModel& gpu) {
  const SoftwareStack& stack = stack_of(run.job);
  const StackOnGpu* on = stack_on_gpu(stack, gpu.name, gpu.family);
  const bool fitted = stack.kin().empty() && stack.name() != "generic";
  const bool measured = on != nullptr && on->spread() < stack.spread() * 1.01;
  return fmt::format("{} {} {} {}",
                     fitted ? "fitted" : stack.kin().empty() ? "unknown" : "kin",
                     is_complete(run) ? "complete" : "assumed",
                     run.job.model().has_experts() ? "experts" : "dense",
                     measured ? "measured" : "scaled");
}

/// Of the class, else of the class without its last words; null where none has residuals.
const Distance* distance_named(std::string name) {
  while (!name.empty()) {
    for (const Distance& each : stack_catalog().distances()) {
      if (each.name() == name) return &each;
    }
    const std::size_t space = name.rfind(' ');
    name.resize(space == std::string::npos ? 0 : space);
  }
  return nullptr;
}

/// A stack that the job brings itself says how far it is off; the shipped ones' classes are known.
void spread(const PublishedRun& run, const GpuModel& gpu, Prediction& prediction) {
  prediction.distance = distance_of(run, gpu);
  const Distance* known =
      run.job.has_software() ? nullptr : distance_named(prediction.distance);
  if (known != nullptr) {
    prediction.p10_s = prediction.iter_time_s * std::exp(-known->below_80());
    prediction.p90_s = prediction.iter_time_s * std::exp(known->above_80());
    prediction.p2_5_s = prediction.iter_time_s * std::exp(-known->below_95());
    prediction.p97_5_s = prediction.iter_time_s * std::exp(known->above_95());
    return;
  }
  const SoftwareStack& stack = stack_of(run.job);
  const StackOnGpu* on = stack_on_gpu(stack, gpu.name, gpu.family);
  const double sd = on == nullptr ? stack.spread() : on->spread();
  prediction.p10_s = prediction.iter_time_s * std::exp(-kP90 * sd);
  prediction.p90_s = prediction.iter_time_s * std::exp(kP90 * sd);
  prediction.p2_5_s = prediction.iter_time_s * std::exp(-kP97_5 * sd);
  prediction.p97_5_s = prediction.iter_time_s * std::exp(kP97_5 * sd);
}

bool fits_in(const Job& job, const Cluster& cluster) {
  if (!job_problems(job).empty()) return false;
  const StepGraph graph(job);
  const std::uint32_t share = graph.micro_batches() / graph.data();
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    if (graph.memory(stage, share).total() > cluster.gpu_model().memory) return false;
  }
  return true;
}

bool fits_recomputing(Job job, const Cluster& cluster) {
  job.set_recompute("full");
  job.set_recompute_share(1);
  return fits_in(job, cluster);
}

/// The first of the usual remedies, from the cheapest to the dearest, that makes the job fit.
std::string remedy(const Job& job, const Cluster& cluster) {
  using Change = void (*)(Job&);
  const std::pair<const char*, Change> remedies[] = {
      {"a sharded optimizer (ZeRO-1)", [](Job& j) { j.mutable_layout()->set_shard("optimizer"); }},
      {"recompute selective", [](Job& j) { j.set_recompute("selective"); }},
      {"half the micro-batch",
       [](Job& j) { j.set_micro_batch(std::max(1u, j.micro_batch() / 2)); }},
      {"recompute full", [](Job& j) { j.set_recompute("full"); }},
      {"sharded parameters (ZeRO-3)",
       [](Job& j) { j.mutable_layout()->set_shard("parameters"); }},
  };
  Job changed = job;
  std::vector<std::string> so_far;
  for (const auto& [name, change] : remedies) {
    Job alone = job;
    change(alone);
    if (fits_in(alone, cluster)) return name;
    change(changed);
    so_far.emplace_back(name);
    if (fits_in(changed, cluster)) return fmt::format("{}", fmt::join(so_far, " and "));
  }
  return "more GPUs for each copy of the model";
}

std::string out_of_memory(const PublishedRun& run, const Cluster& cluster,
                          const StepEstimate& estimate) {
  return fmt::format("out of memory: needs {:.1f} of {:.1f} GiB, would fit with {}",
                     estimate.memory.total().value / kGiB,
                     cluster.gpu_model().memory.value / kGiB, remedy(run.job, cluster));
}

void explain(const PublishedRun& run, const Cluster& cluster, const StepEstimate& estimate,
             Prediction& prediction) {
  const SoftwareStack& stack = stack_of(run.job);
  std::vector<std::string> words;
  if (!prediction.fits) {
    words.push_back(out_of_memory(run, cluster, estimate));
  } else if (estimate.memory.total() > cluster.gpu_model().memory) {
    words.push_back(fmt::format("out of memory unless more is recomputed: needs {:.1f} of {:.1f} "
                                "GiB",
                                estimate.memory.total().value / kGiB,
                                cluster.gpu_model().memory.value / kGiB));
  }
  words.push_back("rests on: " + prediction.distance);
  std::string used = fmt::format("stack {}", stack.name());
  if (!stack.kin().empty()) used += fmt::format(" with the factors of {}", stack.kin());
  words.push_back(used);
  if (!run.assumed.empty()) {
    words.push_back(fmt::format("assumed: {}", fmt::join(run.assumed, ", ")));
  }
  prediction.reason = fmt::format("{}", fmt::join(words, "; "));
}

void price(const PublishedRun& run, Prediction& prediction) {
  const Cluster cluster = build_cluster(run.cluster, {}, "cluster");
  const StepEstimate estimate = estimate_step(run.job, cluster);
  if (!std::isfinite(estimate.step_s) || estimate.step_s <= 0) {
    throw Error(ErrorKind::bad_input, "the step has no finite time");
  }
  prediction.supported = true;
  prediction.iter_time_s = estimate.step_s;
  prediction.memory_bytes = estimate.memory.allocated().value;
  prediction.fits = estimate.memory.total() <= cluster.gpu_model().memory ||
                    (run.recompute_open && fits_recomputing(run.job, cluster));
  spread(run, cluster.gpu_model(), prediction);
  explain(run, cluster, estimate, prediction);
}

}  // namespace

Prediction predict_run(const std::string& id, const PublishedRun& run) {
  Prediction prediction;
  prediction.id = id;
  if (!run.refusal.empty()) {
    prediction.reason = run.refusal;
    return prediction;
  }
  try {
    price(run, prediction);
  } catch (const Error& error) {
    prediction.supported = false;
    prediction.reason = error.message();
  }
  return prediction;
}

std::string prediction_header() {
  return "id,iter_time_s,p10_s,p90_s,p2_5_s,p97_5_s,memory_bytes,status,reason\n";
}

std::string prediction_row(const Prediction& p) {
  const std::string id = csv_field(p.id), reason = csv_field(p.reason);
  if (!p.supported) return fmt::format("{},,,,,,,unsupported,{}\n", id, reason);
  return fmt::format("{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.0f},{},{}\n", id, p.iter_time_s,
                     p.p10_s, p.p90_s, p.p2_5_s, p.p97_5_s, p.memory_bytes,
                     p.fits ? "ok" : "out-of-memory", reason);
}

}  // namespace orrery
