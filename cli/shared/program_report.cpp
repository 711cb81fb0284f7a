#include "cli/shared/program_report.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include <fmt/format.h>

#include "cli/shared/program_status.hpp"

namespace orrery::cli {
namespace {

nlohmann::ordered_json optional_number(const std::optional<double>& value) {
  if (!value) return nullptr;
  return *value;
}

/// Returns "orrery" if Orrery ended the ranks, else "program".
const char* ended_by(const live::ProgramOutcome& outcome) {
  return outcome.refused.empty() && outcome.signal == 0 ? "program" : "orrery";
}

bool is_attached(const live::ProgramOutcome& outcome) {
  return outcome.book.attached() > 0 && outcome.book.plain_reason().empty();
}

/// Returns the reason for which a program has no fault-tolerant group; empty if it has one.
std::string reason_of_absence(const live::ProgramOutcome& outcome) {
  if (!outcome.book.plain_reason().empty()) return outcome.book.plain_reason();
  return outcome.book.attached() == 0 ? "the program created no process group" : "";
}

nlohmann::ordered_json losses_json(const Attempts& attempts) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (std::size_t attempt = 0; attempt < attempts.size(); ++attempt) {
    for (const live::ProgramLoss& loss : attempts[attempt].book.losses()) {
      out.push_back({{"rank", loss.rank},
                     {"cause", loss.cause},
                     {"lost_s", optional_number(loss.lost_s)},
                     {"replaced_s", optional_number(loss.replaced_s)},
                     {"attempt", attempt}});
    }
  }
  return out;
}

nlohmann::ordered_json starts_json(const Attempts& attempts) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (std::size_t attempt = 0; attempt < attempts.size(); ++attempt) {
    for (const live::ProgramStart& start : attempts[attempt].book.starts()) {
      out.push_back({{"rank", start.rank},
                     {"warm", start.is_warm},
                     {"start_s", start.took_s},
                     {"attempt", attempt}});
    }
  }
  return out;
}

/// Time of all ranks of all attempts in seconds; the parts and `idle` sum up to the total.
struct RunTime {
  live::ProgramTime parts;
  double total = 0;

  double idle() const {
    const double known = parts.starting + parts.training + parts.input + parts.recovery;
    return std::max(0.0, total - known);
  }
};

RunTime run_time(const Launch& launch, const Attempts& attempts) {
  RunTime time;
  for (const live::ProgramOutcome& each : attempts) {
    const live::ProgramTime& parts = each.book.rank_time();
    time.parts.starting += parts.starting;
    time.parts.training += parts.training;
    time.parts.input += parts.input;
    time.parts.recovery += parts.recovery;
    time.total += each.elapsed_s * launch.ranks;
  }
  return time;
}

nlohmann::ordered_json gpu_time_json(const RunTime& time) {
  return {{"training", time.parts.training},
          {"input", time.parts.input},
          {"recovery", time.parts.recovery},
          {"starting", time.parts.starting},
          {"idle", time.idle()},
          {"total", time.total}};
}

double elapsed_s(const Attempts& attempts) {
  double sum = 0;
  for (const live::ProgramOutcome& each : attempts) sum += each.elapsed_s;
  return sum;
}

/// Adds the keys about policies; null without them.
void add_policies(const std::optional<ProgramPolicyReport>& policies, nlohmann::ordered_json& out) {
  for (const char* key :
       {"policies", "mode", "decisions", "decisions_applied", "decision_trace_sha256"}) {
    out[key] = nullptr;
  }
  if (!policies) return;
  out["policies"] = policies->names;
  out["mode"] = policies->mode;
  out["decisions"] = policies->decisions;
  out["decisions_applied"] = policies->applied;
  if (!policies->trace_sha256.empty()) out["decision_trace_sha256"] = policies->trace_sha256;
}

/// Returns the number of starts with their median, for example "4 cold with median 8.1 s".
std::string starts_text(const Attempts& attempts, bool is_warm) {
  std::vector<double> took;
  for (const live::ProgramOutcome& each : attempts) {
    for (const live::ProgramStart& start : each.book.starts()) {
      if (start.is_warm == is_warm) took.push_back(start.took_s);
    }
  }
  if (took.empty()) return "";
  std::sort(took.begin(), took.end());
  return fmt::format("{} {}, median {:.2f} s", took.size(), is_warm ? "warm" : "cold",
                     took[took.size() / 2]);
}

/// Prints where the time of the ranks went, and how long their starts took.
void print_times(const Launch& launch, const Attempts& attempts) {
  const RunTime time = run_time(launch, attempts);
  const auto percent = [&time](double part) {
    return time.total > 0 ? 100 * part / time.total : 0;
  };
  fmt::print(stderr,
             "time      training {:.1f}%, input {:.1f}%, recovery {:.1f}%, starting {:.1f}%, idle "
             "{:.1f}% of {:.1f} s of the ranks\n",
             percent(time.parts.training), percent(time.parts.input), percent(time.parts.recovery),
             percent(time.parts.starting), percent(time.idle()), time.total);
  const std::string cold = starts_text(attempts, false), warm = starts_text(attempts, true);
  if (cold.empty() && warm.empty()) return;
  fmt::print(stderr, "starts    {}{}{}, up to the first process group\n", cold,
             cold.empty() || warm.empty() ? "" : "; ", warm);
}

}  // namespace

std::string reason_of_end(const live::ProgramOutcome& outcome) {
  if (!outcome.refused.empty()) {
    return fmt::format(
        "{}: {} cannot be carried through a loss",
        outcome.book.losses().empty() ? "the connection of a group was cut" : "a rank was lost",
        outcome.refused);
  }
  return fmt::format("no rank completed the program, exit code {}", outcome.exit_code);
}

nlohmann::ordered_json program_report_json(const Launch& launch, const Attempts& attempts,
                                           const std::optional<ProgramPolicyReport>& policies) {
  const live::ProgramOutcome& outcome = attempts.back();
  const live::RunBook& book = outcome.book;
  nlohmann::ordered_json out;
  out["ranks"] = launch.ranks;
  const std::vector<std::size_t> missing = book.missing_ranks();
  out["ranks_at_end"] = launch.ranks - missing.size();
  out["ranks_missing"] = missing;
  out["tier"] = nullptr;
  if (is_attached(outcome) && outcome.refused.empty()) {
    out["tier"] = book.losses().size() > missing.size() ? "T2" : "T0";
  }
  if (attempts.size() > 1) out["tier"] = "T1";
  out["attached"] = is_attached(outcome);
  out["not_attached_because"] = nullptr;
  if (!is_attached(outcome)) out["not_attached_because"] = reason_of_absence(outcome);
  out["groups"] = groups_json(outcome.groups);
  out["steps"] = book.steps();
  out["examples_dealt"] = book.dealt_examples();
  out["resumed_step"] = nullptr;
  if (book.resumed_step() > 0) out["resumed_step"] = book.resumed_step();
  out["newest_snapshot"] = nullptr;
  if (book.newest_snapshot() > 0) out["newest_snapshot"] = book.newest_snapshot();
  out["step_time_s"] = optional_number(book.median_step_s());
  out["input_share"] = optional_number(book.input_share());
  out["bytes_on_wire"] = book.sent_bytes();
  out["gpu_time"] = gpu_time_json(run_time(launch, attempts));
  out["starts"] = starts_json(attempts);
  out["losses"] = losses_json(attempts);
  out["restarts"] = nlohmann::ordered_json::array();
  for (std::size_t attempt = 0; attempt + 1 < attempts.size(); ++attempt) {
    out["restarts"].push_back({{"cause", reason_of_end(attempts[attempt])},
                               {"steps", attempts[attempt].book.steps()},
                               {"elapsed_s", attempts[attempt].elapsed_s}});
  }
  add_policies(policies, out);
  out["refused_operation"] = nullptr;
  if (!outcome.refused.empty()) out["refused_operation"] = outcome.refused;
  out["ended_by"] = ended_by(outcome);
  out["elapsed_s"] = elapsed_s(attempts);
  out["exit_code"] = outcome.exit_code;
  return out;
}

void print_program_report(const Launch& launch, const Attempts& attempts) {
  const live::ProgramOutcome& outcome = attempts.back();
  const live::RunBook& book = outcome.book;
  std::string steps = fmt::format("{}", book.steps());
  if (const auto median = book.median_step_s()) steps += fmt::format(", median {:.4f} s", *median);
  if (const auto input = book.input_share()) {
    steps += fmt::format(", {:.1f}% of the time in data loaders", *input * 100);
  }
  const bool ended_itself = outcome.refused.empty() && outcome.signal == 0;
  fmt::print(stderr, "orrery run: ended by {}, exit code {}\nranks     {} of {} at the end{}\n",
             ended_itself ? "the program" : "Orrery", outcome.exit_code,
             launch.ranks - book.missing_ranks().size(), launch.ranks,
             is_attached(outcome) ? "" : "; not attached: " + reason_of_absence(outcome));
  fmt::print(stderr, "steps     {}{}\n", steps,
             attempts.size() > 1 ? " since the last restart" : "");
  print_times(launch, attempts);
  if (book.dealt_examples() > 0) {
    fmt::print(stderr, "dealt     {} examples of lost ranks to the others\n",
               book.dealt_examples());
  }
  if (book.resumed_step() > 0) {
    fmt::print(stderr, "resumed   after step {}, from a snapshot\n", book.resumed_step());
  }
  for (std::size_t attempt = 0; attempt < attempts.size(); ++attempt) {
    for (const live::ProgramLoss& loss : attempts[attempt].book.losses()) {
      fmt::print(stderr, "lost      rank {}: {}{}{}\n", loss.rank, loss.cause,
                 loss.lost_s ? fmt::format("; the step took {:.3f} s more", *loss.lost_s) : "",
                 loss.replaced_s ? fmt::format("; replaced after {:.1f} s", *loss.replaced_s) : "");
    }
    if (attempt + 1 < attempts.size()) {
      fmt::print(stderr, "restarted after {:.1f} s: {}\n", attempts[attempt].elapsed_s,
                 reason_of_end(attempts[attempt]));
    }
  }
}

}  // namespace orrery::cli
