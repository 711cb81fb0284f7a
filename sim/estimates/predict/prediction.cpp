#include "sim/estimates/predict/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/predict/estimate.hpp"
#include "sim/estimates/predict/fitting.hpp"
#include "sim/estimates/predict/interval.hpp"
#include "topologies/builder.hpp"
#include "traces/files/csv.hpp"
#include "traces/workload/own_stack.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
/// Logarithms of measured over predicted memory of a process, 10% and 90% quantiles over sources
/// whose peaks are the allocator's reserve or the device's memory (python/calibration/sweeps.py
/// prints them).
constexpr double kReservedP10 = -0.11, kReservedP90 = 0.45;

/// Assumptions about column names and routing are open in every run and do not count.
bool is_complete(const PublishedRun& run) {
  for (const std::string& each : run.assumed) {
    if (!each.starts_with("column ") && !each.starts_with("routing ")) return false;
  }
  return true;
}

/// Returns the job without its own software if that is a shipped stack with another loss, whose
/// times are as well known as the stack's.
Job job_of_stack(const PublishedRun& run) {
  Job job = run.job;
  if (!run.logit_bytes || is_own(job.software())) return job;
  SoftwareStack shipped = software_stack(job.stack());
  shipped.set_logit_bytes(*run.logit_bytes);
  if (shipped.SerializeAsString() == job.software().SerializeAsString()) job.clear_software();
  return job;
}

void spread(const PublishedRun& run, const GpuModel& gpu, Prediction& prediction) {
  const Interval interval =
      interval_of(prediction.iter_time_s, job_of_stack(run), is_complete(run), gpu);
  prediction.distance = interval.distance;
  prediction.state = interval.state;
  prediction.p10_s = interval.p10_s;
  prediction.p90_s = interval.p90_s;
  prediction.p2_5_s = interval.p2_5_s;
  prediction.p97_5_s = interval.p97_5_s;
}

/// Returns true if a run whose row does not state its recomputation fits when every layer is
/// recomputed and, unless the row states the loss, the logits are made in chunks.
bool fits_if_open(const PublishedRun& run, const Cluster& cluster) {
  if (!run.recompute_open) return false;
  PublishedRun frugal = run;
  frugal.job.set_recompute("full");
  frugal.job.set_recompute_share(1);
  if (!frugal.logit_bytes) {
    frugal.logit_bytes = 0;
    use_stack(stack_of(run.job), frugal);
  }
  return fits_in(frugal.job, cluster);
}

std::string out_of_memory(const PublishedRun& run, const Cluster& cluster,
                          const StepEstimate& estimate) {
  return fmt::format("out of memory: needs {:.1f} of {:.1f} GiB, would fit with {}",
                     estimate.memory.total().value / kGiB, cluster.gpu_model().memory.value / kGiB,
                     remedy(run.job, cluster));
}

void explain(const PublishedRun& run, const Cluster& cluster, const MachineCosts& machine,
             const StepEstimate& estimate, Prediction& prediction) {
  const SoftwareStack& stack = stack_of(run.job);
  std::vector<std::string> words;
  if (!prediction.fits) {
    words.push_back(out_of_memory(run, cluster, estimate));
  } else if (estimate.memory.total() > cluster.gpu_model().memory) {
    words.push_back(
        fmt::format("out of memory unless more is recomputed or the loss is chunked: needs {:.1f} "
                    "of {:.1f} GiB",
                    estimate.memory.total().value / kGiB, cluster.gpu_model().memory.value / kGiB));
  }
  if (estimate.fullest_stage > 0) {
    words.push_back(fmt::format("stage {} is the fullest: the first one needs {:.1f} GiB",
                                estimate.fullest_stage, estimate.first_stage.value / kGiB));
  }
  if (run.job.layout().pipeline() > estimate.fullest_stage + 1) {
    words.push_back(
        fmt::format("the last stage needs {:.1f} GiB", estimate.last_stage.value / kGiB));
  }
  words.push_back("rests on: " + prediction.distance);
  std::string used = fmt::format("stack {}", stack.name());
  if (!stack.kin().empty()) used += fmt::format(" with the factors of {}", stack.kin());
  words.push_back(used);
  if (machine.node) words.push_back("kernels measured on the node (--kernels)");
  if (!run.assumed.empty()) {
    words.push_back(fmt::format("assumed: {}", fmt::join(run.assumed, ", ")));
  }
  prediction.reason = fmt::format("{}", fmt::join(words, "; "));
}

void price(const PublishedRun& run, const MachineCosts& machine, Prediction& prediction) {
  const Cluster cluster = build_cluster(run.cluster, {}, "cluster");
  const StepEstimate estimate = estimate_step(run.job, cluster, machine);
  if (!std::isfinite(estimate.step_s) || estimate.step_s <= 0) {
    throw Error(ErrorKind::bad_input,
                "expected a step time above 0, found none that is finite: "
                "check the numbers of the run");
  }
  prediction.supported = true;
  prediction.iter_time_s = estimate.step_s;
  prediction.memory_bytes = estimate.memory.allocated().value;
  const double reserved = estimate.memory.total().value;
  prediction.reserved_bytes = reserved;
  prediction.reserved_p10 = std::max(prediction.memory_bytes, reserved * std::exp(kReservedP10));
  prediction.reserved_p90 = reserved * std::exp(kReservedP90);
  prediction.fits =
      estimate.memory.total() <= cluster.gpu_model().memory || fits_if_open(run, cluster);
  spread(run, cluster.gpu_model(), prediction);
  explain(run, cluster, machine, estimate, prediction);
}

}  // namespace

Prediction predict_run(const std::string& id, const PublishedRun& run, bool measured_only,
                       const MachineCosts& machine) {
  Prediction prediction;
  prediction.id = id;
  if (!run.refusal.empty()) {
    prediction.reason = run.refusal;
    return prediction;
  }
  try {
    price(run, machine, prediction);
  } catch (const Error& error) {
    prediction.supported = false;
    prediction.reason = error.message();
  }
  const std::string refusal =
      measured_only && prediction.supported
          ? transfer_refusal(prediction.state, "rests on: " + prediction.distance)
          : "";
  if (!refusal.empty()) {
    prediction.supported = false;
    prediction.reason = refusal;
  }
  return prediction;
}

const char* status_of(const Prediction& prediction) {
  if (!prediction.supported) return "unsupported";
  return prediction.fits ? "ok" : "out-of-memory";
}

std::string prediction_header() {
  return "id,iter_time_s,p10_s,p90_s,p2_5_s,p97_5_s,memory_bytes,status,reason,"
         "state,reserved_bytes,reserved_p10,reserved_p90\n";
}

std::string prediction_row(const Prediction& p) {
  const std::string id = csv_field(p.id), reason = csv_field(p.reason);
  if (!p.supported)
    return fmt::format("{},,,,,,,unsupported,{},{},,,\n", id, reason, name_of(p.state));
  return fmt::format("{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.0f},{},{},{},{:.0f},{:.0f},{:.0f}\n",
                     id, p.iter_time_s, p.p10_s, p.p90_s, p.p2_5_s, p.p97_5_s, p.memory_bytes,
                     status_of(p), reason, name_of(p.state), p.reserved_bytes, p.reserved_p10,
                     p.reserved_p90);
}

}  // namespace orrery::estimates
