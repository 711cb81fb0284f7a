// orrery run: runs an unchanged PyTorch program whose process groups survive the loss of ranks.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/shared/help.hpp"
#include "cli/shared/launch_words.hpp"
#include "cli/shared/program_policies.hpp"
#include "cli/shared/program_proof.hpp"
#include "cli/shared/program_start.hpp"
#include "cli/shared/program_status.hpp"
#include "cli/shared/usage.hpp"
#include "cli/shared/user_program.hpp"
#include "cli/shared/warm_ranks.hpp"
#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "core/schema/names.hpp"
#include "live/programs/policies/program_attempts.hpp"
#include "policies/run/threaded_policy.hpp"

namespace orrery::cli {
namespace {

constexpr int kTickMilliseconds = 50;
/// Restarts and replacements that a policy may order, without --restart and --replace.
constexpr std::uint32_t kDecidedLimit = 3;
constexpr int kInterrupted = 130;  ///< exit code after a signal before the first rank

struct ProgramOptions {
  std::optional<std::uint32_t> ranks, restarts, replacements;
  double heartbeat_s = 2;
  bool json = false, deals_data = false;
  std::string warm = "spares";    ///< WarmUse
  std::uint32_t proof_steps = 0;  ///< --prove; 0: no proof
  ProgramPolicyOptions policies;
  std::vector<std::string> program;
};

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

/// Outcomes of all attempts of a run, at least one. Every attempt but the last was ended by a loss.
using Attempts = std::vector<live::ProgramOutcome>;

std::string reason_of_end(const live::ProgramOutcome& outcome) {
  if (!outcome.refused.empty()) {
    return fmt::format(
        "{}: {} cannot be carried through a loss",
        outcome.book.losses().empty() ? "the connection of a group was cut" : "a rank was lost",
        outcome.refused);
  }
  return fmt::format("no rank completed the program, exit code {}", outcome.exit_code);
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

nlohmann::ordered_json report_json(const Launch& launch, const Attempts& attempts,
                                   const std::optional<ProgramPolicyReport>& policies) {
  const live::ProgramOutcome& outcome = attempts.back();
  const live::RunBook& book = outcome.book;
  nlohmann::ordered_json out;
  out["ranks"] = launch.ranks;
  const std::vector<std::size_t> missing = book.missing_ranks();
  out["ranks_at_end"] = launch.ranks - missing.size();
  out["ranks_missing"] = missing;
  out["tier"] = nullptr;
  if (is_attached(outcome)) out["tier"] = book.losses().size() > missing.size() ? "T2" : "T0";
  if (attempts.size() > 1) out["tier"] = "T1";
  out["attached"] = is_attached(outcome);
  out["not_attached_because"] = nullptr;
  if (!book.plain_reason().empty()) out["not_attached_because"] = book.plain_reason();
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

void print_report(const Launch& launch, const Attempts& attempts) {
  const live::ProgramOutcome& outcome = attempts.back();
  const live::RunBook& book = outcome.book;
  std::string steps = fmt::format("{}", book.steps());
  if (const auto median = book.median_step_s()) steps += fmt::format(", median {:.4f} s", *median);
  if (const auto input = book.input_share()) {
    steps += fmt::format(", {:.1f}% of the time in data loaders", *input * 100);
  }
  fmt::print(stderr, "orrery run: ended by the {}, exit code {}\nranks     {} of {} at the end{}\n",
             ended_by(outcome), outcome.exit_code, launch.ranks - book.missing_ranks().size(),
             launch.ranks, is_attached(outcome) ? "" : "; not attached");
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

/// Runs the program, again after an attempt that a loss has ended, up to the limit of restarts.
void run_attempts(const Launch& launch, live::ProgramAttempts& attempts) {
  while (true) {
    attempts.start(nullptr);
    while (attempts.advance_run(kTickMilliseconds)) {}
    const Attempts& over = attempts.outcomes();
    if (!attempts.can_restart() || !live::wants_restart(over.back())) return;
    attempts.print_line(fmt::format("{}; restart {} of {}: all ranks start again",
                                    reason_of_end(over.back()), over.size(), launch.restarts));
  }
}

void print_tiers(const Launch& launch, std::size_t replacements, const ProgramOptions& options) {
  fmt::print(
      stderr,
      "orrery run: {} rank{}, tier T0 for groups of Gloo (CPU) and NCCL (GPU): survivors of a loss "
      "complete or repeat its operation and go on\n",
      launch.ranks, launch.ranks == 1 ? "" : "s");
  if (options.deals_data) {
    fmt::print(stderr,
               "orrery run: the examples of lost ranks go to the others from the next batch on, "
               "where a loader has a DistributedSampler\n");
  }
  if (replacements > 0) {
    fmt::print(stderr,
               "orrery run: tier T2, at most {} new process{} for lost ranks, once the program "
               "calls orrery.torch.state(); without that call a lost rank stays lost\n",
               replacements, replacements == 1 ? "" : "es");
  }
  if (launch.restarts == 0) return;
  fmt::print(stderr,
             "orrery run: tier T1 for other operations and if all ranks are lost: all start again, "
             "at most {} time{}; the program resumes from its own checkpoint or its snapshot "
             "(orrery.torch.state)\n",
             launch.restarts, launch.restarts == 1 ? "" : "s");
}

void print_end(const Launch& launch, const Attempts& attempts, const ProgramOptions& options,
               const std::optional<ProgramPolicyReport>& policies) {
  if (!attempts.back().refused.empty()) {
    fmt::print(stderr,
               "error: {}: start the program again from its newest checkpoint, or let --restart "
               "do it\n",
               reason_of_end(attempts.back()));
  }
  if (options.json) return fmt::print("{}\n", report_json(launch, attempts, policies).dump(2));
  print_report(launch, attempts);
  if (!policies) return;
  fmt::print(stderr, "policies  {} ({}): {} decisions, {} applied\n",
             fmt::join(policies->names, ", "), policies->mode, policies->decisions,
             policies->applied);
  if (!policies->failure.empty()) {
    fmt::print(stderr, "warning: the policies failed and were disabled: {}\n", policies->failure);
  }
}

/// Settings of one run of a program.
struct PreparedRun {
  Launch launch;
  std::string executable;
  std::optional<ProgramPolicies> policies;
  std::uint32_t replacements = 0;
  bool decides = false;  ///< policies decide about lost ranks
};

/// Reads the command line, and prepares the environment of the ranks. Without an executable there
/// is no such program.
PreparedRun prepare_run(const ProgramOptions& options) {
  PreparedRun run{.launch = read_launch(options.program, options.ranks),
                  .executable = {},
                  .policies = std::nullopt};
  Launch& launch = run.launch;
  if (options.policies.has_policies()) {
    run.policies.emplace(options.policies, name_of(launch), launch.ranks);
  } else if (options.proof_steps > 0) {
    throw Error(ErrorKind::usage,
                "--prove: expected a policy that sets shares (--policy, --scenario), found none");
  }
  run.decides = run.policies && run.policies->decide_recovery();
  if (options.restarts || run.decides) launch.restarts = options.restarts.value_or(kDecidedLimit);
  run.replacements = options.replacements.value_or(run.decides ? kDecidedLimit : 0);
  run.executable = executable_of(launch);
  if (!run.executable.empty()) prepare_environment(launch);
  return run;
}

/// Runs the trials of --prove, and lets `attached` follow their result.
void prove_first(const PreparedRun& run, const ProgramOptions& options, AttachSettings& attached) {
  if (options.proof_steps == 0) return;
  const auto print_line = [](const std::string& line) {
    fmt::print(stderr, "orrery run: {}\n", line);
  };
  const StandardOutputAside aside(true);
  const ShareProof proof =
      prove_shares(run.launch, run.executable, attached, options.proof_steps, print_line);
  attached.weighs = proof.weighs;
  print_line(proof.line);
}

int run_program(const ProgramOptions& options) {
  PreparedRun run = prepare_run(options);
  const Launch& launch = run.launch;
  std::optional<ProgramPolicies>& policies = run.policies;
  if (run.executable.empty()) {
    fmt::print(stderr, "error: {}: expected a program, found none of this name\n",
               launch.command.front());
    return kProgramNotFound;
  }
  print_tiers(launch, run.replacements, options);
  if (policies) {
    fmt::print(stderr, "orrery run: policies {} in mode {}\n", fmt::join(policies->names(), ", "),
               options.policies.operation.mode);
  }
  const TemporaryFolder folder("orrery-snapshots");
  AttachSettings attached{.snapshots = folder.path_of("snapshots"),
                          .deals_data = options.deals_data,
                          .has_policies = options.policies.has_policies()};
  prove_first(run, options, attached);
  live::ProgramSettings settings;
  settings.ranks = launch.ranks;
  settings.heartbeat_limit_s = options.heartbeat_s;
  settings.replacements = run.replacements;
  settings.replaces_by_order = run.decides;
  settings.announces_groups = true;
  ProgramStatus status(name_of(launch), policies ? options.policies.operation.mode : "",
                       policies ? policies->names() : std::vector<std::string>{});
  const live::ProgramAttempts* running = nullptr;
  settings.print_line = [&status](const std::string& line) {
    fmt::print(stderr, "orrery run: {}\n", line);
    status.add_line(line);
  };
  settings.signal = [&status, &running] {
    status.publish_status(running->current());
    return status.drain_stop() ? SIGTERM : drain_signal();
  };
  const SignalWatch watch;
  std::optional<StandardOutputAside> aside(std::in_place, options.json);
  WarmRanks ranks(launch, run.executable, attached, folder.path_of("."), settings.print_line);
  settings.start = [&ranks](const live::RankStart& start) { return ranks.start_rank(start); };
  const WarmUse warm = find_named<WarmUse>(options.warm).value_or(WarmUse::spares);
  const bool starts_again = launch.restarts > 0 || run.replacements > 0;
  if (warm == WarmUse::all || (warm == WarmUse::spares && starts_again)) {
    if (!ranks.start_process(warm)) return kInterrupted;
  }
  live::ProgramAttempts attempts(settings, launch.restarts, prepare_attempt);
  running = &attempts;
  std::optional<ProgramPolicyReport> decided;
  if (policies) {
    decided = policies->run(attempts, status);
  } else {
    run_attempts(launch, attempts);
  }
  aside.reset();
  print_end(launch, attempts.outcomes(), options, decided);
  return attempts.outcomes().back().exit_code;
}

int run(const ProgramOptions& options) {
  const int code = run_program(options);
  if (!ThreadedPolicy::has_abandoned_threads()) return code;
  std::fflush(nullptr);
  _exit(code);  // a policy that was given up still uses objects of this process
}

void declare(CLI::App& command, const std::shared_ptr<ProgramOptions>& options) {
  whole_number(*command.add_option("-n,--ranks", options->ranks,
                                   "ranks to start on this machine; default: 1, or torchrun's "
                                   "--nproc-per-node"),
               1, 4096)
      .type_name("N");
  number(*command.add_option("--heartbeat-timeout", options->heartbeat_s,
                             "seconds without a heartbeat after which a rank counts as lost and "
                             "is killed"),
         0.5, 86400)
      .type_name("S")
      ->capture_default_str();
  whole_number(*command.add_option("--restart", options->restarts,
                                   "start all ranks again, at most this often, if no rank can go "
                                   "on; default: 0, torchrun's --max-restarts, or 3 if a policy "
                                   "decides about lost ranks"),
               0, 1000000)
      .type_name("N");
  whole_number(*command.add_option("--replace", options->replacements,
                                   "start a new process for a lost rank, at most this often, if "
                                   "the program calls orrery.torch.state(); default: 0, or 3 if a "
                                   "policy decides about lost ranks"),
               0, 1000000)
      .type_name("N");
  one_of(*command.add_option("--warm", options->warm,
                             "ranks that are forked from a process that has imported PyTorch: "
                             "spares (those of --replace and --restart), all, none"),
         all_names<WarmUse>());
  whole_number(*command.add_option("--prove", options->proof_steps,
                                   "first run this many steps with equal and with unequal shares "
                                   "of the examples, and refuse shares that change the gradients"),
               1, 1000)
      .type_name("STEPS");
  command.add_flag("--deal-data", options->deals_data,
                   "give the examples of lost ranks to the others, in larger batches, where a "
                   "loader has a DistributedSampler");
  command.add_flag("--json", options->json,
                   "print the report as one JSON object; the program prints to standard error");
  command
      .add_option("PROGRAM", options->program,
                  "program with its arguments, after --: python train.py ... or torchrun ... "
                  "train.py ...")
      ->required();
  options->policies.add(command);
  add_examples(command, {"orrery run -n 4 -- python train.py --lr 3e-4",
                         "orrery run -n 4 --policy recover --policy checkpoint-interval "
                         "--record run.log -- python train.py",
                         "orrery run -- torchrun --nproc-per-node 4 train.py"});
}

}  // namespace

void add_run(CLI::App& app, Action& chosen) {
  const auto options = std::make_shared<ProgramOptions>();
  CLI::App* command = app.add_subcommand(
      "run", "run a PyTorch program whose process groups survive the loss of ranks");
  declare(*command, options);
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace orrery::cli
