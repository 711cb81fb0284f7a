#include "sim/estimates/predict/interval.hpp"

#include <cmath>

#include <fmt/format.h>

#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

/// Quantiles of the normal distribution: 90% and 97.5%.
constexpr double kP90 = 1.2815515655446004, kP97_5 = 1.959963984540054;

std::string distance_of(const Job& job, bool complete, const GpuModel& gpu) {
  const SoftwareStack& stack = stack_of(job);
  const StackOnGpu* on = stack_on_gpu(stack, gpu.name, gpu.family);
  const bool fitted = stack.kin().empty() && stack.name() != "generic";
  const bool measured = on != nullptr && on->spread() < stack.spread() * 1.01;
  return fmt::format("{} {} {} {}",
                     fitted ? "fitted" : stack.kin().empty() ? "unknown" : "kin",
                     complete ? "complete" : "assumed",
                     job.model().has_experts() ? "experts" : "dense",
                     measured ? "measured" : "scaled");
}

/// Returns the residuals of a class, else of the class without its last words; null if none is
/// known.
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

}  // namespace

/// A software stack in the job file brings its own spread; the residuals of shipped stacks are
/// known by class.
Interval interval_of(double step_s, const Job& job, bool complete, const GpuModel& gpu) {
  const std::string distance = distance_of(job, complete, gpu);
  const auto between = [&](double below_80, double above_80, double below_95, double above_95) {
    return Interval{distance, step_s * std::exp(-below_80), step_s * std::exp(above_80),
                    step_s * std::exp(-below_95), step_s * std::exp(above_95)};
  };
  const Distance* known = job.has_software() ? nullptr : distance_named(distance);
  if (known != nullptr) {
    return between(known->below_80(), known->above_80(), known->below_95(), known->above_95());
  }
  const SoftwareStack& stack = stack_of(job);
  const StackOnGpu* on = stack_on_gpu(stack, gpu.name, gpu.family);
  const double sd = on == nullptr ? stack.spread() : on->spread();
  return between(kP90 * sd, kP90 * sd, kP97_5 * sd, kP97_5 * sd);
}

}  // namespace orrery::estimates
