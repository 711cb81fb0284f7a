#include "sim/estimates/step/played_step.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery::estimates {
namespace {

/// Returns the second at which a class has ended the passes of all its stages.
double passes_end(const SimulatedStep& step, std::uint32_t of_class) {
  double end = 0;
  for (std::uint32_t stage = 0; stage < step.plan.stages; ++stage) {
    end = std::max(end, step.run.workers[of_class * step.plan.stages + stage].passes_end);
  }
  return end;
}

/// Returns progress in units of 1e-9 micro-batches, about: the same step has other last bits at
/// another begin, or simulated in full detail, and a rank that has just begun must not differ by
/// them from one that is about to.
double without_rounding(double done) {
  constexpr double kUnits = 1 << 30;
  return std::round(done * kUnits) / kUnits;
}

}  // namespace

StepParts parts_of(const SimulatedStep& step, double whole, const std::vector<double>& stretch) {
  std::vector<double> longest(step.plan.classes.size(), 1);  // largest stretch of a class
  if (!stretch.empty()) std::fill(longest.begin(), longest.end(), 0);
  for (std::size_t r = 0; r < stretch.size(); ++r) {
    double& of_class = longest[step.plan.class_of[r]];
    of_class = std::max(of_class, stretch[r]);
  }
  StepParts parts;
  for (std::size_t worker = 0; worker < step.run.workers.size(); ++worker) {
    const WorkerRun& run = step.run.workers[worker];
    parts.compute = std::max(parts.compute, run.passes_end * longest[worker / step.plan.stages]);
    parts.tail = std::max(parts.tail, run.tail);
  }
  parts.exchange = std::max(0.0, whole - parts.compute - parts.tail);
  return parts;
}

double stretched_duration(const SimulatedStep& step, const std::vector<double>& stretch) {
  if (stretch.empty()) return step.run.duration;
  double plain = 0, stretched = 0;
  std::vector<double> ends;
  for (std::uint32_t c = 0; c < step.plan.classes.size(); ++c) {
    ends.push_back(passes_end(step, c));
    plain = std::max(plain, ends.back());
  }
  for (std::size_t replica = 0; replica < stretch.size(); ++replica) {
    stretched = std::max(stretched, ends[step.plan.class_of[replica]] * stretch[replica]);
  }
  return step.run.duration + stretched - plain;
}

PlayedStep::PlayedStep(Step step, Nanos start, std::shared_ptr<const SimulatedStep> what,
                       std::vector<double> stretch)
    : step_(step),
      start_(start),
      end_(start + to_nanos(stretched_duration(*what, stretch))),
      what_(std::move(what)),
      stretch_(std::move(stretch)),
      passes_end_(what_->run.stage_passes_end) {
  if (stretch_.empty()) return;
  for (std::uint32_t stage = 0; stage < what_->plan.stages; ++stage) {
    passes_end_[stage] = 0;
    for (std::uint32_t replica = 0; replica < stretch_.size(); ++replica) {
      passes_end_[stage] =
          std::max(passes_end_[stage], worker(replica, stage).passes_end * stretch_[replica]);
    }
  }
}

const WorkerRun& PlayedStep::worker(std::uint32_t replica, std::uint32_t stage) const {
  return what_->run.workers[what_->plan.class_of[replica] * what_->plan.stages + stage];
}

std::uint32_t PlayedStep::micro_batches(std::uint32_t replica) const {
  return what_->plan.classes[what_->plan.class_of[replica]].micro_batches;
}

double PlayedStep::done(std::uint32_t replica, std::uint32_t stage, Nanos instant) const {
  const WorkerRun& run = worker(replica, stage);
  if (run.passes <= 0) return 0;
  const double t = to_seconds(instant - start_) / stretch_of(replica);
  const auto next = std::upper_bound(
      run.progress.begin(), run.progress.end(), t,
      [](double value, const std::pair<double, double>& point) { return value < point.first; });
  if (next == run.progress.begin()) return 0;
  // Exactly all of them: policies must not see a rank that is late by a rounding.
  if (next == run.progress.end()) return micro_batches(replica);
  const auto& [t0, w0] = *(next - 1);
  const auto& [t1, w1] = *next;
  const double worked = w0 + (w1 - w0) * (t - t0) / (t1 - t0);
  return without_rounding(micro_batches(replica) * worked / run.passes);
}

double PlayedStep::micro_batch_time(std::uint32_t replica, std::uint32_t stage) const {
  const std::uint32_t count = micro_batches(replica);
  return count == 0 ? 0 : worker(replica, stage).passes / count * stretch_of(replica);
}

double PlayedStep::wait_time(std::uint32_t replica, std::uint32_t stage) const {
  const double own = worker(replica, stage).passes_end * stretch_of(replica);
  return std::max(0.0, passes_end_[stage] - own);
}

double PlayedStep::input_wait(std::uint32_t replica, std::uint32_t stage) const {
  return worker(replica, stage).input + what_->run.input_tail;
}

double PlayedStep::utilization(std::uint32_t replica, std::uint32_t stage) const {
  const WorkerRun& run = worker(replica, stage);
  const double after =
      what_->run.duration - what_->run.stage_passes_end[stage] - what_->run.input_tail;
  const double busy = run.passes * stretch_of(replica) + std::max(after, run.tail);
  const double whole = to_seconds(duration());
  return whole > 0 ? std::min(1.0, busy / whole) : 0;
}

ByActivity PlayedStep::activity(std::uint32_t replica, std::uint32_t stage) const {
  const WorkerRun& run = worker(replica, stage);
  const double whole = to_seconds(duration());
  const double busy = utilization(replica, stage) * whole;
  const double kernels =
      std::min(busy, (run.compute - run.tail) * stretch_of(replica) + run.tail);
  const auto [products, memory] = kernel_shares(run);
  return {kernels * products, kernels * memory, busy - kernels,
          whole - busy + kernels * std::max(0.0, 1 - products - memory), 0};
}

double PlayedStep::memory_rate(std::uint32_t replica, std::uint32_t stage) const {
  const double whole = to_seconds(duration());
  return whole > 0 ? worker(replica, stage).moved / whole : 0;
}

}  // namespace orrery::estimates
