#include "cli/shared/replay_tables.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "traces/jobs/job_formats.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::cli {
namespace {

void print_line(std::string_view what, const std::string& text) {
  fmt::print("{:<16}{}\n", what, text);
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

void print_groups(std::string_view what, const auto& groups) {
  fmt::print("\n{:<12}{:>9}{:>14}{:>14}{:>14}{:>14}{:>14}\n", what, "jobs", "GPU-hours",
             "JCT mean s", "JCT median s", "JCT p99 s", "queue mean s");
  for (const JobGroup& group : groups) {
    fmt::print("{:<12}{:>9}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.1f}{:>14.1f}\n", group.key(),
               group.jobs(), group.gpu_hours(), group.jct_mean_s(), group.jct_p50_s(),
               group.jct_p99_s(), group.queue_mean_s());
  }
}

/// Prints the speed of the jobs, the failures of nodes and the lost GPU time.
void print_conditions(const JobsReport& report) {
  print_line("speed", fmt::format("{}; with GPUs for {:.3f} times as long as recorded (mean), at "
                                  "most {:.3f}",
                                  report.speed(), report.slowdown_mean(), report.slowdown_max()));
  print_line("nodes down",
             fmt::format("outages {}, losses of GPUs by jobs {}", grouped(report.outages()),
                         grouped(report.jobs_struck())));
  print_line("lost", fmt::format("{:.1f} GPU-hours, of restarts and of work done again",
                                 report.lost_gpu_hours()));
}

}  // namespace

void print_table(const JobReplay& replay, const JobsReport& report) {
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
  print_groups("GPUs", report.by_size());
  if (report.by_vc_size() > 1) print_groups("cluster", report.by_vc());
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

/// Returns a line about the groups of jobs that wait less, and about those that wait longer.
std::string who_waits(const JobsSavings& saved) {
  std::vector<std::string> said;
  for (const bool less : {true, false}) {
    const JobGroupSaving* most = nullptr;
    int count = 0;
    for (const JobGroupSaving& group : saved.groups()) {
      const double by = less ? group.queue_mean_s() : -group.queue_mean_s();
      if (by <= 0) continue;
      ++count;
      if (most == nullptr || by > std::abs(most->queue_mean_s())) most = &group;
    }
    if (most == nullptr) continue;
    said.push_back(fmt::format("{} of {} groups of jobs wait {}, most {} ({:.2f} h a job)", count,
                               saved.groups_size(), less ? "less" : "longer", most->key(),
                               std::abs(most->queue_mean_s()) / 3600));
  }
  return said.empty() ? "no group of jobs waits less or longer"
                      : fmt::format("{}", fmt::join(said, "; "));
}

/// Prints the waits in hours, and the savings of the reports that have any; nothing if none has.
void print_savings(const std::vector<std::string>& labels, std::size_t width,
                   const std::vector<JobsReport>& reports, const JobsReport& recorded) {
  const auto told = std::find_if(reports.begin(), reports.end(),
                                 [](const JobsReport& report) { return report.has_savings(); });
  if (told == reports.end()) return;
  const std::string& against = told->savings().against();
  const bool is_priced = told->savings().has_usd();
  fmt::print("\n{:<{}} {:>12}{:>14}{:>12}{:>14}{:>16}{}   (saved: against {})\n", "policy", width,
             "waited h", "waited GPU-h", "saved h", "saved GPU-h", "cluster GPU-h",
             is_priced ? fmt::format("{:>14}", "saved USD") : "", against);
  const auto row = [&](const std::string& label, const JobsReport& report) {
    std::string saved;
    if (report.has_savings()) {
      const JobsSavings& each = report.savings();
      saved = fmt::format("{:>12.1f}{:>14.1f}", each.queue_hours(), each.queue_gpu_hours());
      saved += each.has_cluster_gpu_hours() ? fmt::format("{:>16.1f}", each.cluster_gpu_hours())
                                            : fmt::format("{:>16}", "-");
      if (is_priced)
        saved += each.has_usd() ? fmt::format("{:>14.2f}", each.usd()) : fmt::format("{:>14}", "-");
    }
    fmt::print("{:<{}} {:>12.1f}{:>14.1f}{}\n", label, width, hours_waited(report),
               report.queue_gpu_hours(), saved);
  };
  for (std::size_t i = 0; i < reports.size(); ++i) row(labels[i], reports[i]);
  if (recorded.jobs_completed() > 0) row(std::string(kAsRecorded), recorded);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].has_savings()) print_line(labels[i], who_waits(reports[i].savings()));
  }
}

}  // namespace

void print_comparison(const JobReplay& replay, const std::vector<std::string>& labels,
                      const std::vector<JobsReport>& reports, const JobsReport& recorded) {
  print_line("trace", replay.trace());
  print_quality(reports[0].quality());
  print_line("cluster",
             fmt::format("{} nodes x {} GPUs, {} placement, estimates {}", replay.nodes(),
                         replay.gpus_per_node(), replay.placement(), reports[0].estimates()));
  print_line("jobs",
             fmt::format("{} in, {} rejected", reports[0].jobs_in(), reports[0].jobs_rejected()));
  std::size_t width = 13;
  for (const std::string& label : labels) width = std::max(width, label.size());
  fmt::print("\n{:<{}} {:>14}{:>14}{:>14}{:>14}{:>14}{:>9}{:>12}\n", "policy", width, "JCT mean s",
             "JCT median s", "JCT p99 s", "queue mean s", "makespan s", "util %", "preemptions");
  for (std::size_t i = 0; i < reports.size(); ++i) print_outcome(labels[i], width, reports[i]);
  std::vector<std::string> counts;
  bool equal = true;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    equal = equal && reports[i].jobs_completed() == reports[0].jobs_completed();
    counts.push_back(fmt::format("{} {}", labels[i], reports[i].jobs_completed()));
  }
  if (recorded.jobs_completed() > 0) {
    print_outcome(std::string(kAsRecorded), width, recorded);
    equal = equal && recorded.jobs_completed() == reports[0].jobs_completed();
    counts.push_back(fmt::format("{} {}", kAsRecorded, recorded.jobs_completed()));
  }
  if (!equal) {
    fmt::print("The rows are about different jobs: {}.\n", fmt::join(counts, ", "));
  }
  print_savings(labels, width, reports, recorded);
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
