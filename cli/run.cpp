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

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "cli/launch_words.hpp"
#include "cli/usage.hpp"
#include "cli/user_program.hpp"
#include "core/error.hpp"
#include "live/programs/program_run.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

struct ProgramOptions {
  std::optional<std::uint32_t> ranks;
  double heartbeat_s = 2;
  bool json = false;
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
  for (const char* zero : {"GROUP_RANK", "TORCHELASTIC_RESTART_COUNT"}) set_variable(zero, "0");
  set_variable("MASTER_ADDR", "127.0.0.1");
  set_variable("MASTER_PORT", std::to_string(unused_port()));
  // torchrun does the same: ranks of one machine would otherwise use all processors each.
  if (launch.ranks > 1) setenv("OMP_NUM_THREADS", "1", 0);
}

live::RankStarter starter_of(const Launch& launch, const std::string& executable) {
  const std::string native = native_sources_folder().string();
  return [launch, executable, native](std::size_t rank, const std::string& store_path) {
    for (const char* each : {"RANK", "LOCAL_RANK", "ROLE_RANK"}) {
      set_variable(each, std::to_string(rank));
    }
    const nlohmann::json settings{{"native", native}, {"store", store_path}};
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

nlohmann::ordered_json report_json(const Launch& launch, const live::ProgramOutcome& outcome) {
  const live::RunBook& book = outcome.book;
  nlohmann::ordered_json out;
  out["ranks"] = launch.ranks;
  out["ranks_at_end"] = launch.ranks - book.losses().size();
  out["ranks_missing"] = nlohmann::ordered_json::array();
  out["tier"] = is_attached(outcome) ? nlohmann::ordered_json("T0") : nullptr;
  out["attached"] = is_attached(outcome);
  out["not_attached_because"] = nullptr;
  if (!book.plain_reason().empty()) out["not_attached_because"] = book.plain_reason();
  out["steps"] = book.steps();
  out["step_time_s"] = optional_number(book.median_step_s());
  out["input_share"] = optional_number(book.input_share());
  out["losses"] = nlohmann::ordered_json::array();
  for (const live::ProgramLoss& loss : book.losses()) {
    out["ranks_missing"].push_back(loss.rank);
    out["losses"].push_back(
        {{"rank", loss.rank}, {"cause", loss.cause}, {"lost_s", optional_number(loss.lost_s)}});
  }
  out["refused_operation"] = nullptr;
  if (!outcome.refused.empty()) out["refused_operation"] = outcome.refused;
  out["ended_by"] = ended_by(outcome);
  out["elapsed_s"] = outcome.elapsed_s;
  out["exit_code"] = outcome.exit_code;
  return out;
}

void print_report(const Launch& launch, const live::ProgramOutcome& outcome) {
  const live::RunBook& book = outcome.book;
  std::string steps = fmt::format("{}", book.steps());
  if (const auto median = book.median_step_s()) steps += fmt::format(", median {:.4f} s", *median);
  if (const auto input = book.input_share()) {
    steps += fmt::format(", {:.1f}% of the time in data loaders", *input * 100);
  }
  fmt::print(stderr, "orrery run: ended by the {}, exit code {}\nranks     {} of {} at the end{}\n",
             ended_by(outcome), outcome.exit_code, launch.ranks - book.losses().size(),
             launch.ranks, is_attached(outcome) ? "" : "; not attached");
  fmt::print(stderr, "steps     {}\n", steps);
  for (const live::ProgramLoss& loss : book.losses()) {
    fmt::print(stderr, "lost      rank {}: {}{}\n", loss.rank, loss.cause,
               loss.lost_s ? fmt::format("; the step took {:.3f} s more", *loss.lost_s) : "");
  }
}

int run(const ProgramOptions& options) {
  const Launch launch = read_launch(options.program, options.ranks);
  const std::string executable = executable_of(launch);
  if (executable.empty()) {
    fmt::print(stderr, "error: {}: expected a program, found none of this name\n",
               launch.command.front());
    return kProgramNotFound;
  }
  prepare_environment(launch);
  fmt::print(
      stderr,
      "orrery run: {} rank{}, tier T0 for groups of Gloo (CPU) and NCCL (GPU): survivors of a loss "
      "complete or repeat its operation and go on\n",
      launch.ranks, launch.ranks == 1 ? "" : "s");
  live::ProgramSettings settings;
  settings.ranks = launch.ranks;
  settings.heartbeat_limit_s = options.heartbeat_s;
  settings.start = starter_of(launch, executable);
  settings.print_line = [](const std::string& line) {
    fmt::print(stderr, "orrery run: {}\n", line);
  };
  settings.signal = drain_signal;
  const SignalWatch watch;
  const live::ProgramOutcome outcome = [&] {
    const StandardOutputAside aside(options.json);
    return live::run_program(settings);
  }();
  if (!outcome.refused.empty()) {
    fmt::print(
        stderr,
        "error: {}: {} cannot be carried through a loss: start the program again from its "
        "newest checkpoint\n",
        outcome.book.losses().empty() ? "the connection of a group was cut" : "a rank was lost",
        outcome.refused);
  }
  if (options.json) {
    fmt::print("{}\n", report_json(launch, outcome).dump(2));
  } else {
    print_report(launch, outcome);
  }
  return outcome.exit_code;
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
