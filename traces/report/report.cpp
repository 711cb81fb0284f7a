#include "traces/report/report.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/schema/json.hpp"
#include "core/units.hpp"

namespace orrery {

std::string grouped(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

namespace {

const std::string kNotKnown = "not known";

/// Sizes are whole numbers of bytes; readers with strict types refuse 4096.0 for one.
void make_bytes_whole(nlohmann::ordered_json& object) {
  constexpr std::string_view suffix = "_bytes";
  for (auto& [key, value] : object.items()) {
    if (value.is_object()) make_bytes_whole(value);
    if (key.ends_with(suffix) && value.is_number_float()) {
      value = static_cast<std::int64_t>(value.template get<double>());
    }
  }
}

template <class Message>
std::string json_text(const Message& report, bool with_host) {
  nlohmann::ordered_json json = to_json(report);
  make_bytes_whole(json);
  json.erase("replay_tables");  // a table is no figure
  if (const auto notes = json.find("notes"); notes != json.end() && notes->is_null()) {
    json.erase(notes);  // the policies annotated nothing
  }
  if (!with_host) json.erase("host");
  return json.dump(2);
}

std::string percent(double share) {
  const double hundredths = 100 * share;
  return fmt::format("{:.1f}%", std::abs(hundredths) < 0.05 ? 0.0 : hundredths);  // no -0.0%
}

std::string duration(double seconds) { return format_quantity(seconds, Dimension::time); }

/// Hours and days beside the seconds where a run has them.
std::string long_duration(double seconds) {
  constexpr double hour = 3600, day = 24 * hour;
  if (seconds < 2 * hour) return duration(seconds);
  const bool days = seconds >= 2 * day;
  return fmt::format("{} ({:.1f} {})", duration(seconds), seconds / (days ? day : hour),
                     days ? "d" : "h");
}

/// A value that may be unknown, as text.
template <class Format>
std::string known(bool present, double value, Format format) {
  return present ? format(value) : kNotKnown;
}

std::string energy(double joules) {
  constexpr double kilowatt_hour = 3.6e6;
  if (joules >= 1000 * kilowatt_hour) {
    return fmt::format("{:.2f} MWh", joules / kilowatt_hour / 1000);
  }
  if (joules >= kilowatt_hour) return fmt::format("{:.1f} kWh", joules / kilowatt_hour);
  return fmt::format("{:.1f} Wh", joules / kilowatt_hour * 1000);
}

std::string mebibytes(double bytes) {
  constexpr double mebi = 1024.0 * 1024;
  return bytes >= 1024 * mebi ? fmt::format("{:.1f} GiB", bytes / mebi / 1024)
                              : fmt::format("{:.1f} MiB", bytes / mebi);
}

std::string steps(const Report& r) {
  std::string text = grouped(r.steps_completed()) + " completed";
  if (r.has_iterations_simulated()) {
    text += fmt::format(", {} of them simulated, {} equal ones counted",
                        grouped(r.iterations_simulated()), grouped(r.iterations_fast_forwarded()));
  }
  return text;
}

/// Returns true if the times of the report were measured; others are modelled.
bool is_measured(const Report& r) {
  return find_named<ReportWorld>(r.mode()) == ReportWorld::live;
}

std::string step_time(const Report& r) {
  const std::string median = known(r.has_step_time_s(), r.step_time_s(), duration);
  if (!r.has_step_time_s() || !r.has_ideal_step_time_s() || r.ideal_step_time_s() <= 0) {
    return median + " median";
  }
  return fmt::format("{} median, {:.2f} x the ideal {} at the end", median,
                     r.step_time_s() / r.ideal_step_time_s(), duration(r.ideal_step_time_s()));
}

std::string throughput(const Report& r) {
  const auto rate = [](double v) { return grouped(static_cast<std::uint64_t>(v + 0.5)); };
  return fmt::format("{} tokens/s, MFU {}", known(r.has_tokens_per_s(), r.tokens_per_s(), rate),
                     known(r.has_mfu(), r.mfu(), percent));
}

/// Returns the uses of lost time; empty without losses, or if they are unknown.
std::string lost_parts(const Report& r) {
  if (!r.has_gpu_time() || r.breakdown().lost() < 0.0005) return {};
  const GpuTime& time = r.gpu_time();
  std::string text;
  const auto add = [&](const char* what, double seconds) {
    if (seconds <= 0) return;
    text +=
        fmt::format("{}{} {}", text.empty() ? " (" : ", ", what, percent(seconds / time.total()));
  };
  add("checkpoints", time.checkpoint());
  add("lost work", time.lost_work());
  add("detection", time.detection());
  add("recovery", time.recovery());
  add("idle", time.idle());
  return text + ")";
}

std::string breakdown(const Report& r) {
  if (!r.has_breakdown()) return kNotKnown;
  const Breakdown& b = r.breakdown();
  // The clocks of ranks end with their compute: communication and losses are one measured rest.
  if (is_measured(r)) {
    return fmt::format("compute {}, waiting {}, other {} (communication, pauses, lost steps)",
                       percent(b.compute()), percent(b.waiting()),
                       percent(b.exposed_communication()));
  }
  return fmt::format("compute {}, communication {}, bubble {}, waiting {}{}, lost {}{}",
                     percent(b.compute()), percent(b.exposed_communication()), percent(b.bubble()),
                     percent(b.waiting()),
                     b.input() > 0 ? ", input " + percent(b.input()) : std::string(),
                     percent(b.lost()), lost_parts(r));
}

std::string learning(const Report& r) {
  if (!r.has_final_loss()) return "";
  std::string text = fmt::format(", loss {:.3f} nats a token", r.final_loss());
  if (r.has_unigram_entropy()) text += fmt::format(" (unigram {:.3f})", r.unigram_entropy());
  return text;
}

std::string memory(const Report& r) {
  const std::string use = r.has_memory_per_gpu_bytes()
                              ? mebibytes(r.memory_per_gpu_bytes()) + " per GPU, modelled"
                              : kNotKnown;
  return use + learning(r);
}

std::string energy_and_cost(const Report& r) {
  if (!r.has_energy_j() && !r.has_cost_usd()) return kNotKnown;
  const auto dollars = [](double v) {
    if (v > 0 && v < 0.01) return fmt::format("{:.2g} USD", v);
    const auto cents = static_cast<std::uint64_t>(std::llround(std::max(0.0, v) * 100));
    return fmt::format("{}.{:02} USD", grouped(cents / 100), cents % 100);
  };
  std::string more;
  const double gpu_hours = static_cast<double>(r.ranks()) * r.elapsed_s() / 3600;
  if (r.has_cost_usd() && gpu_hours > 0) {
    more += fmt::format(" ({} GPUs, {} an hour each)", grouped(r.ranks()),
                        dollars(r.cost_usd() / gpu_hours));
  }
  if (r.has_cost_if_bought_usd()) {
    more += fmt::format(", {} if bought", dollars(r.cost_if_bought_usd()));
  }
  if (r.has_electricity_usd()) {
    more += fmt::format(", {} of electricity", dollars(r.electricity_usd()));
  }
  if (r.has_carbon_kg()) more += fmt::format(", {:.1f} t of CO2", r.carbon_kg() / 1000);
  const std::string used = !r.has_energy_j() && r.has_trace_limits()
                               ? "energy not modelled (trace or lone collective)"
                               : known(r.has_energy_j(), r.energy_j(), energy);
  return fmt::format("{}, {}{}, modelled", used,
                     r.has_cost_usd() ? dollars(r.cost_usd()) : "no price given", more);
}

/// Returns the mean power of a node and its parts; unknown without them.
std::string power(const Report& r) {
  const EnergyUse& use = r.energy_use();
  const double machines = r.energy_j() - use.site_j();
  if (!r.has_node_power_w() || !r.has_energy_use() || machines <= 0) return kNotKnown;
  const auto share = [machines](double joules) { return percent(joules / machines); };
  return fmt::format("{:.2f} kW a node: products {}, memory {}, communication {}, waiting {}, idle "
                     "{}, host {}, modelled",
                     r.node_power_w() / 1000, share(use.products_j()), share(use.memory_j()),
                     share(use.communication_j()), share(use.waiting_j()), share(use.idle_j()),
                     share(use.host_j()));
}

std::string hand_over(const HandOverReport& h) {
  std::string text = fmt::format("{}: {} passed on", h.mode(), grouped(h.passed_on()));
  const auto add = [&text](std::uint64_t count, const char* what) {
    if (count > 0) text += fmt::format(", {} {}", grouped(count), what);
  };
  add(h.only_watched(), "only watched");
  add(h.refused(), "refused");
  add(h.over_the_limit(), "over the limit");
  add(h.stopped(), "stopped by the kill switch");
  if (h.has_policy_failure_s()) {
    text += ", policies put aside at " + duration(h.policy_failure_s());
  }
  const ShadowSummary& s = h.shadow();
  if (s.steps() == 0) return text;
  return text + fmt::format("; {} scored on {} steps: compute {} as it was, {} as decided",
                            grouped(s.scored()), grouped(s.steps()),
                            duration(s.as_it_was_s() / static_cast<double>(s.steps())),
                            duration(s.as_decided_s() / static_cast<double>(s.steps())));
}

/// Returns the failures, the lost ranks and the mean time between failures.
std::string failures(const Report& r) {
  const std::uint64_t events = count_failure_events(r);
  if (events == 0) return "0";
  std::string text = fmt::format("{}, {} ranks lost", grouped(events),
                                 grouped(static_cast<std::uint64_t>(r.failures_size())));
  if (!r.has_elapsed_s()) return text;
  return text + ", one failure in " + long_duration(r.elapsed_s() / static_cast<double>(events));
}

constexpr double kLongPolicyTimeS = 0.1;  ///< less is not worth a word in the summary

std::string host(const Report& r) {
  if (!r.has_host()) return kNotKnown;
  std::string text = fmt::format("{} wall, {} CPU, {:.0f} MB", duration(r.host().wall_s()),
                                 duration(r.host().cpu_s()), r.host().peak_rss_bytes() / 1e6);
  if (r.host().policy_time_s() >= kLongPolicyTimeS) {
    text += ", policies " + duration(r.host().policy_time_s());
  }
  if (r.has_real_cpu_cores()) {
    text += fmt::format(", the ranks kept {:.2f} cores busy", r.real_cpu_cores());
  }
  return text;
}

constexpr int kJobsListed = 8;

/// Returns the times of a job and, for a training job, the cost of its neighbours.
std::string outcome(const JobOutcome& job) {
  if (!job.has_started_s()) {
    return fmt::format("{} GPUs, submitted at {}, never started", grouped(job.gpus()),
                       long_duration(job.submitted_s()));
  }
  const bool at_once = job.started_s() == 0;
  std::string text = fmt::format("{} GPUs, from {} ", grouped(job.gpus()),
                                 at_once ? "the start" : long_duration(job.started_s()));
  text += job.has_ended_s() ? "to " + long_duration(job.ended_s()) : "on";
  if (!job.has_step_time_s()) return text;
  text += fmt::format(", {} steps of {}", grouped(job.steps()), duration(job.step_time_s()));
  const double alone = job.step_time_alone_s();
  if (alone > 0) {
    text += fmt::format(", {} more than alone", percent(job.step_time_s() / alone - 1));
  }
  if (!job.failed().empty()) text += "; failed: " + job.failed();
  return text;
}

/// Returns the lines of a world with several jobs: the training jobs first, then as many others as
/// fit.
std::vector<std::pair<std::string, std::string>> outcomes(const Report& r) {
  std::vector<std::pair<std::string, std::string>> lines;
  int left_out = 0;
  for (const bool training : {true, false}) {
    for (const JobOutcome& job : r.jobs()) {
      const bool trains = find_named<OutcomeKind>(job.kind()) == OutcomeKind::training;
      if (trains != training) continue;
      if (training || static_cast<int>(lines.size()) < kJobsListed) {
        lines.emplace_back("job " + job.name(), outcome(job));
      } else {
        ++left_out;
      }
    }
  }
  if (left_out > 0) lines.emplace_back("", fmt::format("and {} more: --json has all", left_out));
  return lines;
}

}  // namespace

std::string report_json(const Report& report, bool with_host) {
  return json_text(report, with_host);
}

std::string report_json(const JobsReport& report, bool with_host) {
  return json_text(report, with_host);
}

std::string report_summary(const Report& r) {
  const bool live = is_measured(r);
  const char* const origin = live ? "measured" : "modelled";
  std::vector<std::pair<const char*, std::string>> lines{
      {live ? "live run" : "simulation",
       fmt::format("{}, {} ranks, seed {}", r.scenario(), grouped(r.ranks()), r.seed())},
      {"steps", steps(r)},
      {"elapsed",
       fmt::format("{}, {}", known(r.has_elapsed_s(), r.elapsed_s(), long_duration), origin)},
      {"step time", fmt::format("{}, {}", step_time(r), origin)},
      {"throughput",
       r.has_tokens_per_s() ? fmt::format("{}, {}", throughput(r), origin) : kNotKnown},
      {"GPU time", fmt::format("{} busy, {} goodput",
                               known(r.has_gpu_utilization(), r.gpu_utilization(), percent),
                               known(r.has_goodput(), r.goodput(), percent))},
      {"shares", breakdown(r)},
      {"memory", memory(r)},
      {"energy, cost", energy_and_cost(r)},
      {"power", power(r)},
      {"decisions", fmt::format("{} on {} events", grouped(r.decisions()), grouped(r.events()))},
      {"failures", fmt::format("{}; micro-batches lost {}, repeated {}, recomputed {}", failures(r),
                               grouped(r.micro_batches_lost()), grouped(r.micro_batches_repeated()),
                               grouped(r.micro_batches_recomputed()))},
      {"this machine", host(r)},
  };
  if (r.has_hand_over()) lines.insert(lines.end() - 2, {"hand-over", hand_over(r.hand_over())});
  if (r.has_unfinished()) lines.emplace_back("unfinished", r.unfinished());
  for (const std::string& warning : r.warnings()) lines.emplace_back("warning", warning);
  std::string text;
  for (const auto& [label, value] : lines) {
    if (value != kNotKnown) text += fmt::format("{:<14}{}\n", label, value);
  }
  const auto jobs = outcomes(r);
  std::size_t width = 13;
  for (const auto& [label, value] : jobs) width = std::max(width, label.size());
  for (const auto& [label, value] : jobs) {
    text += fmt::format("{:<{}} {}\n", label, width, value);
  }
  return text;
}

std::uint64_t count_failure_events(const Report& report) {
  std::set<double> instants;
  for (const FailureReport& each : report.failures()) instants.insert(each.time_s());
  return instants.size();
}

std::string version() { return ORRERY_VERSION; }

}  // namespace orrery
