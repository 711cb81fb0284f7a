#include "sim/estimates/predict/interval.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/estimates/predict/run_class.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "traces/workload/own_stack.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

/// Quantiles of the normal distribution: 90% and 97.5%.
constexpr double kP90 = 1.2815515655446004, kP97_5 = 1.959963984540054;
/// Least width of a 95% interval, as a multiple of the 80% interval's.
constexpr double kWider = 1.05;

/// Returns the last word of a distance: "measured" for the GPUs on which the stack was fitted
/// first, the kernel profile of a newer GPU, "scaled" for a GPU of which the stack knows nothing.
std::string gpu_word(const SoftwareStack& stack, const GpuModel& gpu) {
  const StackOnGpu* on = stack_on_gpu(stack, gpu.name, gpu.family);
  if (on == nullptr) return "scaled";
  if (on->spread() < stack.spread() * 1.01) return "measured";
  return gpu.family.empty() ? "scaled" : gpu.family;
}

/// Returns the job's stack, or the shipped one that a stack of own runs begins with.
const SoftwareStack& shipped_stack(const Job& job) {
  const SoftwareStack& used = stack_of(job);
  return is_own(used) ? software_stack(used.kin()) : used;
}

std::string distance_of(const Job& job, bool complete, const GpuModel& gpu) {
  const SoftwareStack& stack = shipped_stack(job);
  const bool fitted = stack.kin().empty() && !is_generic(stack);
  return fmt::format("{} {} {} {}",
                     fitted                ? "fitted"
                     : stack.kin().empty() ? "unknown"
                                           : "kin",
                     complete ? "complete" : "assumed",
                     job.model().has_experts() ? "experts" : "dense", gpu_word(stack, gpu));
}

PredictionState state_of(const Job& job, const GpuModel& gpu) {
  switch (support_of(stack_of(job), gpu.name, gpu.family, run_class(job, gpu))) {
    case StackSupport::measured: return PredictionState::measured;
    case StackSupport::between: return PredictionState::between;
    default: return PredictionState::transferred;
  }
}

const Distance* known_distance(const std::string& name) {
  for (const Distance& each : stack_catalog().distances()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

/// Returns the residuals of a class, else of all runs on its kernel profile ("on TPU"), else of the
/// class without its last words; null if none is known.
const Distance* distance_named(std::string name) {
  const std::string profile = "on " + name.substr(name.rfind(' ') + 1);
  while (!name.empty()) {
    if (const Distance* exact = known_distance(name)) return exact;
    if (const Distance* on_gpu = known_distance(profile)) return on_gpu;
    const std::size_t space = name.rfind(' ');
    name.resize(space == std::string::npos ? 0 : space);
  }
  return nullptr;
}

/// Returns the residuals of a class times the factors of a stack on them ("under nemo").
Distance under_stack(Distance of_class, const std::string& stack) {
  const Distance* factors = known_distance("under " + stack);
  if (factors == nullptr) return of_class;
  of_class.set_below_80(of_class.below_80() * factors->below_80());
  of_class.set_above_80(of_class.above_80() * factors->above_80());
  of_class.set_below_95(
      std::max(of_class.below_95() * factors->below_95(), kWider * of_class.below_80()));
  of_class.set_above_95(
      std::max(of_class.above_95() * factors->above_95(), kWider * of_class.above_80()));
  return of_class;
}

}  // namespace

std::string run_class(const Job& job, const GpuModel& gpu) {
  const Precision used = supported_precision(gpu, product_precision(precision_of(job)));
  const int bits = used == Precision::fp4 ? 4 : used == Precision::fp8 ? 8 : 16;
  return fmt::format("{} {}", job.model().has_experts() ? "experts" : "dense", bits);
}

/// A software stack in the job file brings its own spread; the residuals of shipped stacks are
/// known by class. A stack fitted to own runs has its spread where these runs measured it, and the
/// residuals of its shipped basis elsewhere.
Interval interval_of(double step_s, const Job& job, bool complete, const GpuModel& gpu) {
  const PredictionState state = state_of(job, gpu);
  const bool fitted_here = job.has_software() && is_own(job.software());
  const bool measured_here = fitted_here && state == PredictionState::measured;
  const std::string distance = measured_here ? "own runs" : distance_of(job, complete, gpu);
  const auto between = [&](double below_80, double above_80, double below_95, double above_95) {
    return Interval{distance,
                    state,
                    step_s * std::exp(-below_80),
                    step_s * std::exp(above_80),
                    step_s * std::exp(-below_95),
                    step_s * std::exp(above_95)};
  };
  const bool own_spread = job.has_software() && (measured_here || !fitted_here);
  const Distance* known = own_spread ? nullptr : distance_named(distance);
  if (known != nullptr) {
    const Distance here = under_stack(*known, shipped_stack(job).name());
    return between(here.below_80(), here.above_80(), here.below_95(), here.above_95());
  }
  const SoftwareStack& stack = stack_of(job);
  const StackOnGpu* on = stack_on_gpu(stack, gpu.name, gpu.family);
  const double sd = on == nullptr ? stack.spread() : on->spread();
  return between(kP90 * sd, kP90 * sd, kP97_5 * sd, kP97_5 * sd);
}

std::string transfer_refusal(PredictionState state, const std::string& basis) {
  if (state != PredictionState::transferred) return "";
  return fmt::format(
      "--measured-only: expected a combination of GPU and software with fitted "
      "measurements, found one that is transferred from a relative ({}); name "
      "another GPU or stack (`orrery list stacks`), or leave the option out",
      basis);
}

}  // namespace orrery::estimates
