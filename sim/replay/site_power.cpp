#include "sim/replay/site_power.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::sim {
namespace {

/// Times that each limit comes before a job that waits all this time is given up.
constexpr int kPatience = 100;
/// Largest number of begins and ends of limits that are looked at before a replay.
constexpr int kMostEdges = 4096;

/// Shortest time that counts for the highest power: ends of jobs that belong to one instant may be
/// rounded to different nanoseconds after changes of the clock.
constexpr Nanos kInstant = 1000;

/// Pauses without the end of a job after which a replay is given up.
constexpr std::uint64_t kMostPauses = 100'000;

[[noreturn]] void refuse_budget(const std::string& message) {
  throw Error(ErrorKind::bad_input, "power.limits: " + message);
}

}  // namespace

SitePower::SitePower(const JobPowerBudget& budget, const Cluster& cluster)
    : power_(cluster), spending_(spending_of(budget)) {
  if (power_.is_known()) meter_ = EnergyMeter(cluster);
  if (budget.limits().empty()) return;
  if (!power_.is_known()) {
    refuse_budget(
        fmt::format("expected GPUs whose power is known, found '{}' without: write their "
                    "idle_power and max_power in 'gpus' of the cluster",
                    cluster.gpu_model().name));
  }
  schedule_ = PowerSchedule(budget.limits(), cluster, "power.limits");
  if (spending_ == JobSpending::flat) {
    flat_clock_ = clock_under(cluster.gpu_model(), gpu_limit(cluster, *schedule_.lowest()));
    if (flat_clock_ >= kLeastClock) return;
    refuse_budget(
        fmt::format("expected a flat cap with at least {:g} of the clock, found {:.3g} "
                    "under the lowest limit of {:g} kW: raise the limit, or choose "
                    "spend: follow, pause or wait",
                    kLeastClock, flat_clock_, schedule_.lowest()->value / 1000));
  }
  if (most_gpus_lasting() > 0) return;
  refuse_budget(
      fmt::format("expected power for a GPU at some time, again and again, found at most "
                  "that of the idle cluster, which draws {:g} kW: raise the limits or let them end",
                  power_.total_power(0).value / 1000));
}

std::uint32_t SitePower::gpus_under(std::optional<Watts> limit) const {
  if (!limit || spending_ == JobSpending::flat) return power_.gpus();
  return power_.gpus_within(*limit, spending_ == JobSpending::follow ? kLeastClock : 1);
}

std::uint32_t SitePower::most_gpus() const { return gpus_under(limit_); }

std::uint32_t SitePower::most_gpus_lasting() const {
  const Nanos settled = schedule_.settled_time(0, kPatience);  // limits may rarely leave a gap
  std::uint32_t most = 0;
  Nanos at = schedule_.settled_time(0, 0);
  for (int edges = 0; at <= settled && most < power_.gpus(); ++edges) {
    if (edges == kMostEdges) return power_.gpus();
    most = std::max(most, gpus_under(schedule_.limit_at(at)));
    at = schedule_.next_change(at);
    if (at == kNever) break;
  }
  return most;
}

void SitePower::begin(Nanos at) {
  begin_ = since_ = last_work_ = at;
  limit_ = schedule_.limit_at(at);
  change_ = schedule_.next_change(at);
  meter_.begin_at(at);
}

void SitePower::hold_until(Nanos now) {
  if (now <= since_ || !is_known()) return;
  const Watts draws = power_.total_power(working_, clock_);
  if (now - since_ >= kInstant) highest_ = std::max(highest_, draws.value);
  meter_.add(since_, now, working_, {.time = {1, 0, 0, 0, 0}, .clock = clock_});
  meter_.add(since_, now, power_.gpus() - working_, {.time = {0, 0, 0, 0, 1}, .clock = 1});
  used_ += working_ * to_seconds(now - since_);
  if (working_ > 0) last_work_ = now;
  while (since_ < now) {
    const Nanos until = std::min(now, change_);
    if (limit_ && draws.value > limit_->value * (1 + 1e-9)) over_ += until - since_;
    since_ = until;
    if (since_ < change_) continue;
    limit_ = schedule_.limit_at(since_);
    change_ = schedule_.next_change(since_);
  }
}

void SitePower::count_pause() {
  ++pauses_;
  if (pauses_ - pauses_at_end_ < kMostPauses) return;
  refuse_budget(
      fmt::format("expected jobs that end between the limits, found {} pauses at {:g} s "
                  "since the last end of a job: lower conditions.restart_cost, or let "
                  "less time pass under the limits",
                  kMostPauses, to_seconds(since_)));
}

double SitePower::set_work(double gpus) {
  working_ = gpus;
  if (spending_ == JobSpending::flat) {
    clock_ = flat_clock_;
  } else if (spending_ == JobSpending::follow) {
    clock_ = limit_ ? power_.shared_clock(gpus, *limit_) : 1;
  }
  return clock_;
}

Nanos SitePower::next_change(bool work) const {
  if (work) return change_;
  return since_ < schedule_.settled_time(last_work_, kPatience) ? change_ : kNever;
}

void SitePower::fill(JobsReport& report) const {
  if (!is_known()) return;
  Report measured;
  meter_.fill(measured, 1, to_seconds(since_ - begin_), power_.gpus());
  JobsPower& power = *report.mutable_power();
  power.set_energy_j(measured.energy_j());
  if (measured.has_electricity_usd()) power.set_electricity_usd(measured.electricity_usd());
  if (measured.has_carbon_kg()) power.set_carbon_kg(measured.carbon_kg());
  power.set_highest_w(highest_);
  power.set_gpu_hours(used_ / 3600);
  if (!has_limits()) return;
  power.set_spend(std::string(name_of(spending_)));
  power.set_lowest_limit_w(schedule_.lowest()->value);
  power.set_over_s(to_seconds(over_));
  power.set_pauses(pauses_);
}

}  // namespace orrery::sim
