#include "sim/estimates/step/step_record.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace orrery::estimates {

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::gradient: return "gradient";
    case Phase::optimizer: return "optimizer";
    case Phase::parameters: return "parameters";
  }
  return "";
}

namespace {

std::string slice_name(const Op& op) {
  const char* phase = phase_name(op.phase);
  if (op.kind == OpKind::read) return fmt::format("read {}", op.micro_batch);
  if (op.kind == OpKind::collective) {
    if (!is_pass(op.phase)) return fmt::format("{} bucket {}", phase, op.bucket);
    return fmt::format("gather {} of {} {}", op.bucket, phase, op.micro_batch);
  }
  if (!is_pass(op.phase)) return phase;
  std::string name = fmt::format("{} {}", phase, op.micro_batch);
  if (op.kind == OpKind::send) name += fmt::format(" to stage {}", op.peer_stage);
  return name;
}

}  // namespace

void StepRecord::begin(std::uint32_t workers, std::size_t blocks) {
  began_ = engine_.now();
  work_ended_ = 0;
  run_ = {};
  run_.workers.resize(workers);
  for (WorkerRun& worker : run_.workers) {
    worker.progress.reserve(2 * blocks + 1);
    worker.progress.emplace_back(0.0, 0.0);
  }
}

void StepRecord::add_slice(std::uint32_t worker, Slice::Track track, const Op& op, double from,
                           double until) {
  run_.workers[worker].slices.push_back({track, slice_name(op), from, until});
}

void StepRecord::add_block(std::uint32_t worker, const Op& op, const BlockTimes& times,
                           const BlockPrice& price, double clock) {
  WorkerRun& run = run_.workers[worker];
  const auto [began, kernels_ended, end] = times;
  // Time after an update's kernels belongs to the host, not to a collective.
  const double kernels = is_pass(op.phase) ? kernels_ended : end;
  run.compute += kernels - began;
  run.tensor += end - kernels;
  run.moved += price.moved.value;
  const double nominal = kernel_time(price, clock);
  const double slowness = nominal > 0 ? (kernels_ended - began) / nominal : 0;
  run.products += slowness * price.products.value / clock;
  run.memory += slowness * price.memory.value;
  if (is_pass(op.phase)) {
    if (run.progress.back().first != began) run.progress.emplace_back(began, run.passes);
    run.passes += end - began;
    run.progress.emplace_back(end, run.passes);
    run.passes_end = end;
  } else {
    run.tail += end - began;
  }
  if (slices_) add_slice(worker, Slice::Track::compute, op, began, end);
}

void StepRecord::end(bool cut_short) {
  run_.cut_short = cut_short;
  run_.duration = now();
  if (!cut_short) run_.input_tail = run_.duration - work_ended_;
}

IterationRun StepRecord::take_run(std::uint32_t stages) {
  run_.stage_passes_end.assign(stages, 0);
  for (std::size_t i = 0; i < run_.workers.size(); ++i) {
    double& latest = run_.stage_passes_end[i % stages];
    latest = std::max(latest, run_.workers[i].passes_end);
  }
  return std::move(run_);
}

}  // namespace orrery::estimates
