#include "topologies/power.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

/// Power above idle at the limit of the GPU.
double most_above_idle(const GpuModel& gpu) {
  const Watts limit = gpu.power_cap.value > 0 ? gpu.power_cap : gpu.max_power;
  return std::min(limit, gpu.max_power).value - gpu.idle_power.value;
}

}  // namespace

Watts power_of(const GpuModel& gpu, Activity activity, double clock) {
  if (activity == Activity::idle) return gpu.idle_power;
  const double share = gpu.activity_shares[static_cast<std::size_t>(activity)];
  const double wanted = (gpu.max_power - gpu.idle_power).value * share;
  return {gpu.idle_power.value + std::min(wanted, most_above_idle(gpu) * clock * clock * clock)};
}

Watts mean_power(const GpuModel& gpu, const ByActivity& time, double clock) {
  double sum = 0, watts = 0;
  for (std::size_t i = 0; i < kActivities; ++i) {
    sum += time[i];
    watts += time[i] * power_of(gpu, static_cast<Activity>(i), clock).value;
  }
  return sum > 0 ? Watts{watts / sum} : gpu.idle_power;
}

double clock_under(const GpuModel& gpu, Watts limit) {
  const double most = most_above_idle(gpu), left = limit.value - gpu.idle_power.value;
  if (left >= most) return 1;
  return left <= 0 ? 0 : std::cbrt(left / most);
}

Watts full_power(const Cluster& cluster) {
  const GpuModel& gpu = cluster.gpu_model();
  const double each = gpu.idle_power.value + most_above_idle(gpu);
  return {cluster.price().pue *
          (each * cluster.gpus() + cluster.shape().host_power.value * cluster.nodes())};
}

Watts gpu_limit(const Cluster& cluster, Watts site) {
  const double machines = site.value / cluster.price().pue;
  return {(machines - cluster.shape().host_power.value * cluster.nodes()) / cluster.gpus()};
}

WorkingPower::WorkingPower(const Cluster& cluster)
    : gpus_(cluster.gpus() / cluster.shape().slices_per_gpu),
      pue_(cluster.price().pue),
      hosts_(cluster.shape().host_power.value * cluster.nodes()),
      idle_(cluster.gpu_model().idle_power.value),
      above_(most_above_idle(cluster.gpu_model())) {}

Watts WorkingPower::total_power(double working, double clock) const {
  return {pue_ * (hosts_ + idle_ * gpus_ + working * above_ * clock * clock * clock)};
}

std::uint32_t WorkingPower::gpus_within(Watts site, double clock) const {
  // A limit that is that of a number of GPUs, up to rounding, leaves power for this number.
  const double may = left_of(site) / (above_ * clock * clock * clock) * (1 + 1e-12);
  return static_cast<std::uint32_t>(std::clamp(std::floor(may), 0.0, double(gpus_)));
}

double WorkingPower::shared_clock(double working, Watts site) const {
  const double left = left_of(site), most = working * above_;
  if (left >= most) return 1;
  return left <= 0 ? 0 : std::cbrt(left / most);
}

}  // namespace orrery
