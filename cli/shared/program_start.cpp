#include "cli/shared/program_start.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/shared/usage.hpp"
#include "cli/shared/user_program.hpp"
#include "core/error.hpp"
#include "core/schema/names.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t signal_seen = 0;

/// Signals with which users end a run. SIGHUP: their terminal is closed.
constexpr std::array<int, 4> kEndSignals{SIGINT, SIGTERM, SIGQUIT, SIGHUP};

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

constexpr const char* kRestartCount = "TORCHELASTIC_RESTART_COUNT";
constexpr const char* kMasterPort = "MASTER_PORT";

}  // namespace

CLI::Option* add_sums_option(CLI::App& command, std::string& sums) {
  return &one_of(*command.add_option("--sums", sums,
                                     "way of the sums of tensors on the CPU: memory (which the "
                                     "ranks share), sockets (of Gloo)"),
                 all_names<SumPath>());
}

SignalWatch::SignalWatch() {
  signal_seen = 0;
  struct sigaction action {};
  action.sa_handler = [](int number) { signal_seen = number; };
  for (std::size_t at = 0; at < kEndSignals.size(); ++at) {
    sigaction(kEndSignals[at], &action, &before_[at]);
    const bool was_ignored = before_[at].sa_handler == SIG_IGN;
    if (kEndSignals[at] == SIGHUP && was_ignored) sigaction(SIGHUP, &before_[at], nullptr);
  }
}

SignalWatch::~SignalWatch() {
  for (std::size_t at = 0; at < kEndSignals.size(); ++at) {
    sigaction(kEndSignals[at], &before_[at], nullptr);
  }
}

int drain_signal() {
  const int number = signal_seen;
  signal_seen = 0;
  return number;
}

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

std::string name_of(const Launch& launch) {
  for (std::size_t word = 1; word < launch.command.size(); ++word) {
    if (launch.command[word].ends_with(".py")) return fs::path(launch.command[word]).filename();
  }
  return fs::path(launch.command.front()).filename();
}

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

void prepare_attempt(std::size_t restart) {
  set_variable(kRestartCount, std::to_string(restart));
  set_variable(kMasterPort, std::to_string(unused_port()));
}

std::map<std::string, std::string> attempt_environment() {
  std::map<std::string, std::string> found;
  for (const char* const name : {kRestartCount, kMasterPort}) {
    if (const char* const value = std::getenv(name)) found[name] = value;
  }
  return found;
}

void set_attachment(const AttachSettings& settings, const live::RankStart& start,
                    const std::string& warm_file) {
  const nlohmann::json told{{"native", native_sources_folder().string()},
                            {"store", start.store_path},
                            {"snapshots", settings.snapshots},
                            {"replaces", start.is_replacement},
                            {"deals_data", settings.deals_data},
                            {"policies", settings.has_policies},
                            {"shares_sums", settings.sums == SumPath::memory},
                            {"in_flight", settings.in_flight},
                            {"outlives_run", settings.outlives_run},
                            {"profile_folder", settings.profile_folder},
                            {"profile_steps", settings.profile_steps},
                            {"trace_folder", settings.trace_folder},
                            {"proof",
                             {{"folder", settings.proof.folder},
                              {"steps", settings.proof.steps},
                              {"shares", settings.proof.deals_shares},
                              {"weighs", settings.proof.weighs}}},
                            {"weighs", settings.weighs},
                            {"warm_file", warm_file}};
  set_variable("ORRERY_RUN", told.dump());
}

void set_rank(const AttachSettings& settings, const live::RankStart& start) {
  for (const char* each : {"RANK", "LOCAL_RANK", "ROLE_RANK"}) {
    set_variable(each, std::to_string(start.rank));
  }
  set_attachment(settings, start, "");
}

live::RankStarter starter_of(const Launch& launch, const std::string& executable,
                             const AttachSettings& settings) {
  native_sources_folder();
  return [launch, executable, settings](const live::RankStart& start) {
    set_rank(settings, start);
    const ChildEnd end = settings.outlives_run ? ChildEnd::by_itself : ChildEnd::with_parent;
    return live::StartedRank{ChildProcess(
        executable, {launch.command.begin() + 1, launch.command.end()}, ChildGroup::own, end)};
  };
}

}  // namespace orrery::cli
