// orrery run: runs an unchanged PyTorch program whose process groups survive the loss of ranks.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
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
#include "cli/shared/usage.hpp"
#include "cli/shared/user_program.hpp"
#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "live/programs/program_run.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

struct ProgramOptions {
  std::optional<std::uint32_t> ranks, restarts;
  std::uint32_t replacements = 0;
  double heartbeat_s = 2;
  bool json = false, deals_data = false;
  std::vector<std::string> program;
};

volatile std::sig_atomic_t signal_seen = 0;

/// Keeps the numbers of SIGINT and SIGTERM, in place of ending this process.
class SignalWatch {
 public:
  SignalWatch() {
    signal_seen = 0;
    struct sigaction action {};
    action.sa_handler = [](int number) { signal_seen = number; };
    sigaction(SIGINT, &action, &interrupt_before_);
    sigaction(SIGTERM, &action, &terminate_before_);
  }
  ~SignalWatch() {
    sigaction(SIGINT, &interrupt_before_, nullptr);
    sigaction(SIGTERM, &terminate_before_, nullptr);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  struct sigaction interrupt_before_ {
  }, terminate_before_{};
};

int drain_signal() {
  const int number = signal_seen;
  signal_seen = 0;
  return number;
}

/// Returns a TCP port that no process uses now. The program needs a port only if the process group
/// cannot be attached, or if it opens a store of its own.
int unused_port() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound =
      bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(listener);
  if (!bound) throw Error(ErrorKind::environment, "expected an unused TCP port, found none");
  return ntohs(address.sin_port);
}

/// Returns the executable of the ranks; empty if there is none.
std::string executable_of(const Launch& launch) {
  const std::string found = executable_named(launch.command.front());
  if (!launch.is_torchrun || found.empty()) return found;
  if (fs::path(launch.command.front()).filename() != "torchrun") return found;
  for (const char* name : {"python", "python3"}) {
    const fs::path beside = fs::path(found).parent_path() / name;
    if (fs::exists(beside)) return beside.string();
  }
  return executable_named("python3");
}

/// Sets the environment that all ranks share.
void prepare_environment(const Launch& launch) {
  const std::string ranks = std::to_string(launch.ranks);
  attach_through_path(programs_folder());
  for (const char* size : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) set_variable(size, ranks);
  set_variable("GROUP_RANK", "0");
  set_variable("TORCHELASTIC_MAX_RESTARTS", std::to_string(launch.restarts));
  set_variable("MASTER_ADDR", "127.0.0.1");
  // torchrun does the same: ranks of one machine would otherwise use all processors each.
  if (launch.ranks > 1) setenv("OMP_NUM_THREADS", "1", 0);
}

/// Sets the environment that differs between the attempts, of which `restart` came before.
void prepare_attempt(std::size_t restart) {
  set_variable("TORCHELASTIC_RESTART_COUNT", std::to_string(restart));
  set_variable("MASTER_PORT", std::to_string(unused_port()));
}

/// Returns the function that starts a rank. `snapshots`: folder of the snapshots of this run.
live::RankStarter starter_of(const Launch& launch, const std::string& executable,
                             const std::string& snapshots, bool deals_data) {
  const std::string native = native_sources_folder().string();
  return [launch, executable, native, snapshots, deals_data](const live::RankStart& start) {
    for (const char* each : {"RANK", "LOCAL_RANK", "ROLE_RANK"}) {
      set_variable(each, std::to_string(start.rank));
    }
    const nlohmann::json settings{{"native", native},
                                  {"store", start.store_path},
                                  {"snapshots", snapshots},
                                  {"replaces", start.is_replacement},
                                  {"deals_data", deals_data}};
    set_variable("ORRERY_RUN", settings.dump());
    return ChildProcess(executable, {launch.command.begin() + 1, launch.command.end()},
                        ChildGroup::own);
  };
}

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

double elapsed_s(const Attempts& attempts) {
  double sum = 0;
  for (const live::ProgramOutcome& each : attempts) sum += each.elapsed_s;
  return sum;
}

nlohmann::ordered_json report_json(const Launch& launch, const Attempts& attempts) {
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
  out["steps"] = book.steps();
  out["examples_dealt"] = book.dealt_examples();
  out["resumed_step"] = nullptr;
  if (book.resumed_step() > 0) out["resumed_step"] = book.resumed_step();
  out["newest_snapshot"] = nullptr;
  if (book.newest_snapshot() > 0) out["newest_snapshot"] = book.newest_snapshot();
  out["step_time_s"] = optional_number(book.median_step_s());
  out["input_share"] = optional_number(book.input_share());
  out["losses"] = losses_json(attempts);
  out["restarts"] = nlohmann::ordered_json::array();
  for (std::size_t attempt = 0; attempt + 1 < attempts.size(); ++attempt) {
    out["restarts"].push_back({{"cause", reason_of_end(attempts[attempt])},
                               {"steps", attempts[attempt].book.steps()},
                               {"elapsed_s", attempts[attempt].elapsed_s}});
  }
  out["refused_operation"] = nullptr;
  if (!outcome.refused.empty()) out["refused_operation"] = outcome.refused;
  out["ended_by"] = ended_by(outcome);
  out["elapsed_s"] = elapsed_s(attempts);
  out["exit_code"] = outcome.exit_code;
  return out;
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

/// True if all ranks have to start again: nothing of the program is left, and nobody ended it.
bool wants_restart(const live::ProgramOutcome& outcome) {
  const bool completes = outcome.exit_code == 0 || outcome.exit_code == live::kRanksMissing;
  return outcome.signal == 0 && !completes;
}

/// Runs the program, again after an attempt that a loss has ended, up to the limit of restarts.
Attempts run_attempts(const Launch& launch, live::ProgramSettings settings) {
  Attempts attempts;
  for (std::size_t restart = 0;; ++restart) {
    prepare_attempt(restart);
    attempts.push_back(live::run_program(settings));
    settings.replacements -= attempts.back().replacements;
    if (restart == launch.restarts || !wants_restart(attempts.back())) return attempts;
    settings.print_line(fmt::format("{}; restart {} of {}: all ranks start again",
                                    reason_of_end(attempts.back()), restart + 1, launch.restarts));
  }
}

void print_tiers(const Launch& launch, const ProgramOptions& options) {
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
  const std::size_t replacements = options.replacements;
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

int run(const ProgramOptions& options) {
  Launch launch = read_launch(options.program, options.ranks);
  launch.restarts = options.restarts.value_or(launch.restarts);
  const std::string executable = executable_of(launch);
  if (executable.empty()) {
    fmt::print(stderr, "error: {}: expected a program, found none of this name\n",
               launch.command.front());
    return kProgramNotFound;
  }
  prepare_environment(launch);
  print_tiers(launch, options);
  live::ProgramSettings settings;
  settings.ranks = launch.ranks;
  settings.heartbeat_limit_s = options.heartbeat_s;
  settings.replacements = options.replacements;
  const TemporaryFolder folder("orrery-snapshots");
  settings.start = starter_of(launch, executable, folder.path_of("snapshots"), options.deals_data);
  settings.print_line = [](const std::string& line) {
    fmt::print(stderr, "orrery run: {}\n", line);
  };
  settings.signal = drain_signal;
  const SignalWatch watch;
  const Attempts attempts = [&] {
    const StandardOutputAside aside(options.json);
    return run_attempts(launch, settings);
  }();
  if (!attempts.back().refused.empty()) {
    fmt::print(stderr,
               "error: {}: start the program again from its newest checkpoint, or let --restart "
               "do it\n",
               reason_of_end(attempts.back()));
  }
  if (options.json) {
    fmt::print("{}\n", report_json(launch, attempts).dump(2));
  } else {
    print_report(launch, attempts);
  }
  return attempts.back().exit_code;
}

void declare(CLI::App& command, const std::shared_ptr<ProgramOptions>& options) {
  whole_number(*command.add_option("-n,--ranks", options->ranks,
                                   "ranks to start on this machine; default: 1, or torchrun's "
                                   "--nproc-per-node"),
               1, 4096)
      .type_name("N");
  command
      .add_option("--heartbeat-timeout", options->heartbeat_s,
                  "seconds without a heartbeat after which a rank counts as lost and is killed")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.5, 86400.0))
      ->capture_default_str();
  whole_number(*command.add_option("--restart", options->restarts,
                                   "start all ranks again, at most this often, if no rank can go "
                                   "on; default: 0, or torchrun's --max-restarts"),
               0, 1000000)
      .type_name("N");
  whole_number(*command.add_option("--replace", options->replacements,
                                   "start a new process for a lost rank, at most this often, if "
                                   "the program calls orrery.torch.state()"),
               0, 1000000)
      .type_name("N")
      ->capture_default_str();
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
  add_examples(command, {"orrery run -n 4 -- python train.py --lr 3e-4",
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
