#include "cli/shared/replay_tables.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "sim/replay/job_results.hpp"
#include "traces/jobs/job_formats.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

void print_line(std::string_view what, const std::string& text) {
  fmt::print("{:<15} {}\n", what, text);
}

void print_quality(const TraceQuality& quality) {
  std::string rows =
      fmt::format("{} rows: {} jobs", grouped(quality.rows()), grouped(quality.jobs()));
  if (quality.passed_over() > 0)
    rows += fmt::format(", {} passed over", grouped(quality.passed_over()));
  if (quality.rejected() > 0) rows += fmt::format(", {} rejected", grouped(quality.rejected()));
  if (quality.format() != name_of(JobLogFormat::canonical)) {
    print_line("log", fmt::format("{}, {}", quality.format(), rows));
  }
  if (quality.duplicate_ids() > 0) {
    print_line("ids", fmt::format("{} jobs have the id of an earlier job, first '{}'",
                                  grouped(quality.duplicate_ids()), quality.first_duplicate()));
  }
}

void print_counts(const JobsReport& report) {
  print_line("jobs",
             fmt::format("{} in, {} out{}, {} preemptions", report.jobs_in(), report.jobs_out(),
                         report.jobs_rejected() == 0
                             ? ""
                             : fmt::format(" ({} of them rejected)", report.jobs_rejected()),
                         report.preemptions()));
  for (int i = 0; i < std::min(3, report.rejected_size()); ++i) {
    const RejectedRow& row = report.rejected(i);
    print_line(i == 0 ? "rejected" : "",
               fmt::format("line {}, job {}: {}", row.line(), row.job_id(), row.reason()));
  }
}

/// Returns a time of an hour or more once more in hours or days, for example " (6.5 h)".
std::string in_hours(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour;
  if (seconds < kHour) return "";
  return seconds < kDay ? fmt::format(" ({:.1f} h)", seconds / kHour)
                        : fmt::format(" ({:.1f} d)", seconds / kDay);
}

std::string percent_of(bool known, double share) {
  return known ? fmt::format("{:.2f}%", 100 * share) : "not known";
}

void print_group(std::string_view label, const JobGroup& group) {
  fmt::print("{:<12}{:>9}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.1f}\n", label, group.jobs(),
             group.gpu_hours(), group.jct_mean_s(), group.jct_p50_s(), group.jct_p99_s(),
             group.queue_mean_s());
}

/// Prints groups, each with a row of the log's own outcome below it if the log has one.
void print_groups(std::string_view what, const auto& groups, const auto& recorded) {
  fmt::print("\n{:<12}{:>9}{:>14}{:>14}{:>14}{:>14}{:>14}\n", what, "jobs", "GPU-hours",
             "JCT mean s", "JCT median s", "JCT p99 s", "queue mean s");
  for (const JobGroup& group : groups) {
    print_group(group.key(), group);
    const JobGroup* const log = sim::group_of(recorded, group.key());
    if (log != nullptr) print_group(kAsRecorded, *log);
  }
}

/// Prints the speed of the jobs, the failures of nodes and the lost GPU time.
void print_conditions(const JobsReport& report) {
  print_line("speed", fmt::format("{}; with GPUs for {:.3f} times as long as recorded (mean), at "
                                  "most {:.3f}",
                                  report.speed(), report.slowdown_mean(), report.slowdown_max()));
  print_line("nodes down", fmt::format("outages {}, losses of GPUs by jobs {}",
                                       grouped(report.outages()), grouped(report.jobs_struck())));
  print_line("lost", fmt::format("{:.1f} GPU-hours, of restarts and of work done again",
                                 report.lost_gpu_hours()));
}

/// Returns a power in kW, or in MW from 10 MW on.
std::string power_text(double watts) {
  return watts < 1e7 ? fmt::format("{:.1f} kW", watts / 1e3)
                     : fmt::format("{:.2f} MW", watts / 1e6);
}

/// Prints energy, prices, and the limits of the power.
void print_power(const JobsPower& power) {
  std::string text = fmt::format("{:.3f} MWh, at most {}", power.energy_j() / 3.6e9,
                                 power_text(power.highest_w()));
  if (power.has_electricity_usd()) {
    text += fmt::format(", {:.2f} USD of electricity", power.electricity_usd());
  }
  if (power.has_carbon_kg()) text += fmt::format(", {:.1f} kg CO2", power.carbon_kg());
  print_line("energy", text);
  if (power.spend().empty()) return;
  print_line("power limits", fmt::format("lowest {}, spend: {}; pauses {}, {:.0f} s above a limit",
                                         power_text(power.lowest_limit_w()), power.spend(),
                                         grouped(power.pauses()), power.over_s()));
}

}  // namespace

void print_replay(const JobReplay& replay, const JobsReport& report) {
  print_line("trace", replay.trace());
  print_quality(report.quality());
  print_line("cluster", fmt::format("{} nodes x {} GPUs, {}, {} placement", replay.nodes(),
                                    replay.gpus_per_node(), replay.policy(), replay.placement()));
  print_counts(report);
  if (!report.has_jct_mean_s()) return print_line("completion", "not known: no job ended");
  print_line("completion",
             fmt::format("mean {:.1f} s{}, median {:.1f} s, p99 {:.1f} s{}", report.jct_mean_s(),
                         in_hours(report.jct_mean_s()), report.jct_p50_s(), report.jct_p99_s(),
                         in_hours(report.jct_p99_s())));
  print_line("in the queue", fmt::format("mean {:.1f} s{}", report.queue_mean_s(),
                                         in_hours(report.queue_mean_s())));
  print_line("makespan",
             fmt::format("{:.0f} s{}", report.makespan_s(), in_hours(report.makespan_s())));
  print_line("utilization", percent_of(report.has_utilization(), report.utilization()) +
                                (report.has_utilization() ? " until the last job has ended" : ""));
  if (report.has_queue_length_mean()) {
    print_line("waiting jobs", fmt::format("mean {:.1f}, most {}", report.queue_length_mean(),
                                           grouped(report.queue_length_max())));
    print_line("fragmentation", fmt::format("{} of the free GPUs are in partly used nodes",
                                            percent_of(true, report.fragmentation_mean())));
  }
  std::string told = report.estimates();
  if (told != name_of(EstimateKind::recorded)) {
    told += fmt::format(", wrong by a factor of {:.2f} (median), {:.2f} (p90)",
                        report.estimate_factor_p50(), report.estimate_factor_p90());
  }
  print_line("estimates", told);
  if (report.has_speed()) print_conditions(report);
  if (report.has_power()) print_power(report.power());
}

void print_group_tables(const JobsReport& report) {
  if (report.jobs_completed() == 0) return;
  print_groups("GPUs", report.by_size(), report.recorded().by_size());
  if (report.by_vc_size() > 1) {
    print_groups("cluster", report.by_vc(), report.recorded().by_vc());
  }
}

namespace {

void print_outcome(const std::string& label, std::size_t width, const JobsReport& report) {
  fmt::print("{:<{}} {:>14.1f}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.0f}{:>9.2f}{:>12}\n", label, width,
             report.jct_mean_s(), report.jct_p50_s(), report.jct_p99_s(), report.queue_mean_s(),
             report.makespan_s(), 100 * report.utilization(),
             report.has_preemptions() ? std::to_string(report.preemptions()) : "-");
}

double hours_waited(const JobsReport& report) {
  return report.queue_mean_s() * static_cast<double>(report.jobs_completed()) / 3600;
}

/// Returns the number of groups of one kind that wait less, or longer, and the one with most;
/// empty if there is none.
std::string count_waits(const std::vector<const sim::GroupWaits*>& groups, bool less) {
  const sim::GroupWaits* most = nullptr;
  int count = 0;
  for (const sim::GroupWaits* const group : groups) {
    const double by = less ? group->saved_mean_s() : -group->saved_mean_s();
    if (by <= 0) continue;
    ++count;
    if (most == nullptr || by > std::abs(most->saved_mean_s())) most = group;
  }
  if (most == nullptr) return "";
  return fmt::format("{} of {} wait {}, most {} ({:.2f} h a job)", count, groups.size(),
                     less ? "less" : "longer", most->key, std::abs(most->saved_mean_s()) / 3600);
}

/// Returns a text about the groups of one kind that wait less, and about those that wait longer.
std::string who_waits(const std::vector<const sim::GroupWaits*>& groups, std::string_view what) {
  std::vector<std::string> said;
  for (const bool less : {true, false}) {
    const std::string text = count_waits(groups, less);
    if (!text.empty()) said.push_back(text);
  }
  return fmt::format(
      "{}: {}", what,
      said.empty() ? "none waits less or longer" : fmt::format("{}", fmt::join(said, "; ")));
}

std::vector<const sim::GroupWaits*> groups_by(const std::vector<sim::GroupWaits>& all,
                                              sim::WaitsBy by) {
  std::vector<const sim::GroupWaits*> groups;
  for (const sim::GroupWaits& each : all) {
    if (each.by == by && !each.key.empty()) groups.push_back(&each);
  }
  return groups;
}

/// Prints who waits less and longer: virtual clusters if there are several, else sizes; and users
/// if there are several.
void print_who_waits(const ComparedReplay& replay, std::size_t width) {
  const auto line = [&](const std::string& label, const std::string& text) {
    fmt::print("{:<{}} {}\n", label, width, text);
  };
  const auto clusters = groups_by(replay.waits, sim::WaitsBy::vc);
  line(replay.label, clusters.size() > 1
                         ? who_waits(clusters, "virtual clusters")
                         : who_waits(groups_by(replay.waits, sim::WaitsBy::size), "sizes"));
  const auto users = groups_by(replay.waits, sim::WaitsBy::user);
  if (users.size() > 1) line("", who_waits(users, "users"));
}

/// Prints the waits in hours, and the savings of the reports that have any; nothing if none has.
void print_savings(const std::vector<ComparedReplay>& rows, std::size_t width,
                   const JobsReport& recorded) {
  const auto told = std::find_if(rows.begin(), rows.end(), [](const ComparedReplay& each) {
    return each.report.has_savings();
  });
  if (told == rows.end()) return;
  const std::string& against = told->report.savings().against();
  const bool is_priced = told->report.savings().has_queue_usd();
  fmt::print("\n{:<{}} {:>12}{:>14}{:>12}{:>14}{:>16}{}   (saved: against {})\n", "policy", width,
             "waited h", "waited GPU-h", "saved h", "saved GPU-h", "cluster GPU-h",
             is_priced ? fmt::format("{:>14}{:>14}", "saved USD", "waiting USD") : "", against);
  const auto row = [&](std::string_view label, const JobsReport& report) {
    std::string saved;
    if (report.has_savings()) {
      const JobsSavings& each = report.savings();
      saved = fmt::format("{:>12.1f}{:>14.1f}", each.queue_hours(), each.queue_gpu_hours());
      saved += each.has_cluster_gpu_hours() ? fmt::format("{:>16.1f}", each.cluster_gpu_hours())
                                            : fmt::format("{:>16}", "-");
      if (is_priced) {
        saved += each.has_usd() ? fmt::format("{:>14.2f}", each.usd()) : fmt::format("{:>14}", "-");
        saved += fmt::format("{:>14.2f}", each.queue_usd());
      }
    }
    fmt::print("{:<{}} {:>12.1f}{:>14.1f}{}\n", label, width, hours_waited(report),
               report.queue_gpu_hours(), saved);
  };
  for (const ComparedReplay& each : rows) row(each.label, each.report);
  if (recorded.jobs_completed() > 0) row(kAsRecorded, recorded);
  for (const ComparedReplay& each : rows) {
    if (!each.report.has_savings()) continue;
    print_who_waits(each, width);
    const std::string& own = each.report.savings().against();
    if (own != against) fmt::print("{:<{}} saved: against {}\n", each.label, width, own);
  }
}

/// Prints energy, prices and pauses of the replays with power, if one of them has limits.
void print_energy(const std::vector<ComparedReplay>& rows, std::size_t width) {
  if (std::none_of(rows.begin(), rows.end(), [](const ComparedReplay& each) {
        return !each.report.power().spend().empty();
      })) {
    return;
  }
  fmt::print("\n{:<{}} {:>12}{:>14}{:>12}{:>12}{:>10}{:>12}\n", "policy", width, "energy MWh",
             "electr. USD", "CO2 kg", "highest kW", "pauses", "over s");
  const auto cell = [](bool known, double value, int width_of, int digits) {
    return known ? fmt::format("{:>{}.{}f}", value, width_of, digits)
                 : fmt::format("{:>{}}", "-", width_of);
  };
  for (const ComparedReplay& each : rows) {
    if (!each.report.has_power()) continue;
    const JobsPower& power = each.report.power();
    fmt::print("{:<{}} {:>12.3f}{}{}{:>12.1f}{}{}\n", each.label, width, power.energy_j() / 3.6e9,
               cell(power.has_electricity_usd(), power.electricity_usd(), 14, 2),
               cell(power.has_carbon_kg(), power.carbon_kg(), 12, 1), power.highest_w() / 1e3,
               cell(power.has_pauses(), static_cast<double>(power.pauses()), 10, 0),
               cell(power.has_over_s(), power.over_s(), 12, 0));
  }
}

/// Prints a line if the rows are about different jobs: their numbers, and the numbers of jobs that
/// savings are about.
void print_job_sets(const std::vector<ComparedReplay>& rows, const JobsReport& recorded) {
  std::vector<std::string> counts, common;
  bool equal = true;
  const auto count = [&](std::string_view label, const JobsReport& report) {
    equal = equal && sim::have_same_jobs(report, rows[0].report);
    counts.push_back(fmt::format("{} {}", label, report.jobs_completed()));
  };
  for (const ComparedReplay& each : rows) {
    count(each.label, each.report);
    if (!each.report.has_savings()) continue;
    common.push_back(fmt::format("{} {}", each.label, each.report.savings().jobs()));
  }
  if (recorded.jobs_completed() > 0) count(kAsRecorded, recorded);
  if (equal) return;
  fmt::print("The rows are about different jobs: {}.", fmt::join(counts, ", "));
  if (!common.empty()) {
    fmt::print(" Savings are those of the jobs that both rows have: {}.", fmt::join(common, ", "));
  }
  fmt::print("\n");
}

}  // namespace

void print_heading(const JobReplay& replay, const JobsReport& report) {
  print_line("trace", replay.trace());
  print_quality(report.quality());
  print_line("cluster",
             fmt::format("{} nodes x {} GPUs, {} placement, estimates {}", replay.nodes(),
                         replay.gpus_per_node(), replay.placement(), report.estimates()));
  print_line("jobs", fmt::format("{} in, {} rejected", report.jobs_in(), report.jobs_rejected()));
}

void print_comparison(const std::vector<ComparedReplay>& rows, const JobsReport& recorded,
                      const std::vector<std::string>& remarks) {
  const bool is_known = recorded.jobs_completed() > 0;
  std::size_t width = 13;
  for (const ComparedReplay& each : rows) width = std::max(width, each.label.size());
  if (rows.size() > 1 || is_known) {
    fmt::print("\n{:<{}} {:>14}{:>14}{:>14}{:>14}{:>14}{:>9}{:>12}\n", "policy", width,
               "JCT mean s", "JCT median s", "JCT p99 s", "queue mean s", "makespan s", "util %",
               "preemptions");
    for (const ComparedReplay& each : rows) print_outcome(each.label, width, each.report);
  }
  if (is_known) {
    print_outcome(std::string(kAsRecorded), width, recorded);
  } else {
    print_line(kAsRecorded, "not known: the log has no starts of jobs");
  }
  print_job_sets(rows, recorded);
  for (const ComparedReplay& each : rows) {
    if (!each.report.same_schedule()) continue;
    fmt::print("{}: no job starts or ends otherwise\n", each.label);
  }
  for (const std::string& line : remarks) fmt::print("{}\n", line);
  print_savings(rows, width, recorded);
  if (rows.size() > 1) print_energy(rows, width);
}

void print_backtest(const std::string& policy, const std::vector<sim::BacktestRow>& rows) {
  fmt::print("\n{:<14}{:>8}{:>14}{:>12}{:>11}{:>13}{:>15}{:>10}{:>10}{:>10}\n", policy, "jobs",
             "log's wait s", "replayed s", "off by s", "within 60 s", "longer in log", "full s",
             "quota s", "room s");
  for (const sim::BacktestRow& row : rows) {
    fmt::print(
        "{:<14}{:>8}{:>14.1f}{:>12.1f}{:>11.1f}{:>12.1f}%{:>14.1f}%{:>10.1f}{:>10.1f}"
        "{:>10.1f}\n",
        fmt::format("{} {}", name_of(row.by), row.key), row.jobs, row.recorded_wait_s,
        row.replayed_wait_s, row.difference_s, 100 * row.within_minute, 100 * row.longer_in_log,
        row.full_s, row.quota_s, row.room_s);
  }
}

void print_node_health(const NodeHealth& health, std::uint32_t nodes) {
  fmt::print("\n");
  print_line(
      "node failures",
      fmt::format("{} in {:.0f} node-days with jobs: conditions.failures={:.2f}",
                  grouped(health.failures), health.node_days, health.per_thousand_node_days()));
  if (health.failures > 0) {
    print_line("", fmt::format("one node of {} every {:.1f} h, of a job of 16 every {:.1f} h",
                               grouped(nodes), health.mean_hours(nodes), health.mean_hours(16)));
  }
  for (const NodeHealth::Lemon& lemon : health.lemons) {
    print_line("", fmt::format("lemon {}: {} failures, {:.1f} expected", lemon.node, lemon.failures,
                               lemon.expected));
  }
}

void print_json(const std::vector<JobsReport>& reports) {
  if (reports.size() == 1) return fmt::print("{}\n", report_json(reports[0]));
  std::vector<std::string> all;
  for (const JobsReport& report : reports) all.push_back(report_json(report));
  fmt::print("[{}]\n", fmt::join(all, ",\n"));
}

}  // namespace orrery::cli
