#include "sim/prediction.hpp"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimate.hpp"
#include "topologies/builder.hpp"
#include "traces/csv.hpp"
#include "traces/stacks.hpp"

namespace orrery {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
/// Quantiles of the normal distribution: 90% and 97.5%.
constexpr double kP90 = 1.2815515655446004, kP97_5 = 1.959963984540054;

/// A measured time spreads round a predicted one like a log-normal, as wide as the stack's
/// predictions were off where it was fitted, wider where it was not.
void spread(const PublishedRun& run, const std::string& gpu, Prediction& prediction) {
  const SoftwareStack& stack = stack_of(run.job);
  const StackOnGpu* on = stack_on_gpu(stack, gpu);
  const double sd = on == nullptr ? stack.spread() : on->spread();
  prediction.p10_s = prediction.iter_time_s * std::exp(-kP90 * sd);
  prediction.p90_s = prediction.iter_time_s * std::exp(kP90 * sd);
  prediction.p2_5_s = prediction.iter_time_s * std::exp(-kP97_5 * sd);
  prediction.p97_5_s = prediction.iter_time_s * std::exp(kP97_5 * sd);
}

void explain(const PublishedRun& run, const Cluster& cluster, Prediction& prediction) {
  const SoftwareStack& stack = stack_of(run.job);
  std::vector<std::string> words;
  const double room = cluster.gpu_model().memory.value;
  if (prediction.memory_bytes > room) {
    words.push_back(fmt::format("out of memory: needs {:.1f} of {:.1f} GiB",
                                prediction.memory_bytes / kGiB, room / kGiB));
  }
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
  prediction.memory_bytes = estimate.memory.total().value;
  spread(run, cluster.gpu_model().name, prediction);
  explain(run, cluster, prediction);
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
  return fmt::format("{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.0f},ok,{}\n", id, p.iter_time_s,
                     p.p10_s, p.p90_s, p.p2_5_s, p.p97_5_s, p.memory_bytes, reason);
}

}  // namespace orrery
