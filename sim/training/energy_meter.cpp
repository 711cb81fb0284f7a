#include "sim/training/energy_meter.hpp"

#include <algorithm>
#include <numeric>

namespace orrery::sim {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;
constexpr Nanos kHour = 3600 * kNanosPerSecond;

}  // namespace

EnergyMeter::EnergyMeter(const Cluster& cluster)
    : cluster_(&cluster),
      electricity_hours_(cluster.price().per_kwh_by_hour.size()),
      carbon_hours_(cluster.price().carbon_by_hour.size()) {}

void EnergyMeter::add_hours(std::vector<double>& hours, Nanos from, Nanos until,
                            double watts) const {
  if (hours.empty()) return;
  const Nanos shift = to_nanos(cluster_->price().begins_at.value);
  const Nanos cycle = kHour * static_cast<Nanos>(hours.size());
  const Nanos whole = (until - from) / cycle;
  for (double& each : hours) each += watts * to_seconds(kHour) * static_cast<double>(whole);
  Nanos at = from + shift + whole * cycle;
  const Nanos end = until + shift;
  while (at < end) {
    const Nanos next = std::min(end, (at / kHour + 1) * kHour);
    hours[static_cast<std::size_t>(at / kHour) % hours.size()] += watts * to_seconds(next - at);
    at = next;
  }
}

void EnergyMeter::add(Nanos from, Nanos until, double gpus, const Mix& mix) {
  from = std::max(from, began_);
  if (cluster_ == nullptr || until <= from || gpus <= 0) return;
  const double seconds = to_seconds(until - from);
  const double all = std::accumulate(mix.time.begin(), mix.time.end(), 0.0);
  double watts = 0;
  for (std::size_t i = 0; i < kActivities && all > 0; ++i) {
    const double each = gpus * mix.time[i] / all *
                        power_of(cluster_->gpu_model(), static_cast<Activity>(i), mix.clock).value;
    parts_[i] += each * seconds;
    watts += each;
  }
  const double hosts = gpus * cluster_->shape().host_power.value / cluster_->shape().gpus_per_node;
  host_ += hosts * seconds;
  add_hours(electricity_hours_, from, until, watts + hosts);
  add_hours(carbon_hours_, from, until, watts + hosts);
}

double EnergyMeter::joules() const {
  return std::accumulate(parts_.begin(), parts_.end(), host_);
}

double EnergyMeter::priced(const std::vector<double>& hours, const std::vector<double>& table,
                           double constant) const {
  if (table.empty()) return joules() * constant;
  return std::inner_product(hours.begin(), hours.end(), table.begin(), 0.0);
}

void EnergyMeter::fill(Report& report, double scale, double elapsed, double gpus) const {
  if (cluster_ == nullptr) return;
  const Price& price = cluster_->price();
  const double machines = joules() * scale, site = machines * price.pue;
  report.set_energy_j(site);
  EnergyUse& parts = *report.mutable_energy_use();
  const auto part = [&](Activity which) {
    return parts_[static_cast<std::size_t>(which)] * scale;
  };
  parts.set_products_j(part(Activity::products));
  parts.set_memory_j(part(Activity::memory));
  parts.set_communication_j(part(Activity::communication));
  parts.set_waiting_j(part(Activity::waiting));
  parts.set_idle_j(part(Activity::idle));
  parts.set_host_j(host_ * scale);
  parts.set_site_j(site - machines);
  const double nodes = gpus / cluster_->shape().gpus_per_node;
  if (elapsed > 0) report.set_node_power_w(machines / elapsed / nodes);
  const double kwh = scale * price.pue / kJoulesPerKwh;
  if (price.carbon_g_per_kwh > 0) {
    report.set_carbon_kg(
        priced(carbon_hours_, price.carbon_by_hour, price.carbon_g_per_kwh) * kwh / 1000);
  }
  if (price.per_kwh > 0) {
    report.set_electricity_usd(
        priced(electricity_hours_, price.per_kwh_by_hour, price.per_kwh) * kwh);
  }
  if (price.purchase <= 0) return;
  report.set_cost_if_bought_usd(price.purchase * gpus * elapsed / price.lifetime.value +
                                report.electricity_usd());
}

}  // namespace orrery::sim
