#include "cli/shared/program_takeover.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/shared/user_program.hpp"
#include "core/error.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kLockFile = "/controller";
constexpr const char* kRecordFile = "/takeover.json";
constexpr double kRewrite_s = 1;  ///< time between two records without news of the ranks
/// Variable that makes this process the successor of the run with this folder.
constexpr const char* kTakenVariable = "ORRERY_TAKE_OVER";

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the texts of a file of /proc, each of which ends with a zero byte.
std::vector<std::string> texts_in(const std::string& path) {
  std::vector<std::string> texts;
  const std::string bytes = text_of_file(path);
  for (std::size_t from = 0; from < bytes.size();) {
    texts.emplace_back(bytes.c_str() + from);
    from += texts.back().size() + 1;
  }
  return texts;
}

json json_of(const live::ProgramLoss& loss) {
  json out{{"rank", loss.rank}, {"time_s", loss.time_s}, {"cause", loss.cause}};
  if (loss.lost_s) out["lost_s"] = *loss.lost_s;
  if (loss.replaced_s) out["replaced_s"] = *loss.replaced_s;
  return out;
}

live::ProgramLoss loss_of(const json& in) {
  live::ProgramLoss loss{in.at("rank"), in.at("time_s"), in.at("cause"), {}, {}};
  if (in.contains("lost_s")) loss.lost_s = in["lost_s"].get<double>();
  if (in.contains("replaced_s")) loss.replaced_s = in["replaced_s"].get<double>();
  return loss;
}

json json_of(const live::RunRemains& remains) {
  const live::RunAccount& account = remains.account;
  json losses = json::array();
  for (const live::ProgramLoss& loss : account.losses) losses.push_back(json_of(loss));
  const live::ProgramTime& time = account.time;
  return {{"folder", remains.folder},
          {"begin_s", remains.begin_s},
          {"attempt", remains.attempt},
          {"replacements", remains.replacements},
          {"processes", remains.processes},
          {"is_attached", remains.is_attached},
          {"epoch", account.epoch.number},
          {"members", account.epoch.members},
          {"reset", account.epoch.reset},
          {"changed", account.epoch.changed},
          {"ended", account.ended},
          {"losses", losses},
          {"time", {time.starting, time.training, time.input, time.recovery}},
          {"newest_snapshot", account.newest_snapshot}};
}

live::RunRemains remains_of(const json& in) {
  live::RunRemains remains;
  in.at("folder").get_to(remains.folder);
  in.at("begin_s").get_to(remains.begin_s);
  in.at("attempt").get_to(remains.attempt);
  in.at("replacements").get_to(remains.replacements);
  in.at("processes").get_to(remains.processes);
  in.at("is_attached").get_to(remains.is_attached);
  live::RunAccount& account = remains.account;
  in.at("epoch").get_to(account.epoch.number);
  in.at("members").get_to(account.epoch.members);
  in.at("reset").get_to(account.epoch.reset);
  in.at("changed").get_to(account.epoch.changed);
  in.at("ended").get_to(account.ended);
  for (const json& loss : in.at("losses")) account.losses.push_back(loss_of(loss));
  const auto time = in.at("time").get<std::vector<double>>();
  account.time = {time.at(0), time.at(1), time.at(2), time.at(3)};
  in.at("newest_snapshot").get_to(account.newest_snapshot);
  return remains;
}

SavedRun record_in(const std::string& folder) {
  try {
    const json in = json::parse(text_of_file(folder + kRecordFile));
    return {.folder = folder,
            .arguments = in.at("arguments"),
            .directory = in.at("directory"),
            .snapshots = in.at("snapshots"),
            .began_s = in.at("began_s"),
            .weighs = in.at("weighs"),
            .attempt = in.at("attempt"),
            .remains = remains_of(in.at("remains"))};
  } catch (const json::exception& error) {
    throw Error(ErrorKind::environment,
                fmt::format("{}{}: expected the record of an `orrery run` of this version: {}",
                            folder, kRecordFile, error.what()));
  }
}

/// Returns the descriptor of the lock file; -1 if there is none.
int open_lock(const std::string& folder, int flags) {
  return open((folder + kLockFile).c_str(), flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/// Takes the environment of a rank of the run, without the variables that attach the rank.
void adopt_environment(const live::RunRemains& remains) {
  for (const pid_t process : remains.processes) {
    const auto variables = texts_in(fmt::format("/proc/{}/environ", process));
    if (process == 0 || variables.empty()) continue;
    clearenv();
    for (const std::string& each : variables) {
      const std::size_t equals = each.find('=');
      if (equals != std::string::npos)
        set_variable(each.substr(0, equals).c_str(), each.substr(equals + 1));
    }
    break;
  }
  unsetenv("ORRERY_RUN");
  const char* const path = std::getenv("PYTHONPATH");
  const std::string attach = (programs_folder() / "attach").string();
  if (path == nullptr || !std::string(path).starts_with(attach)) return;
  const std::string rest = std::string(path).substr(attach.size());
  if (rest.empty()) {
    unsetenv("PYTHONPATH");
  } else if (rest.front() == ':') {
    set_variable("PYTHONPATH", rest.substr(1));
  }
}

}  // namespace

RunRecord::RunRecord(const std::string& folder)
    : folder_(folder), lock_(open_lock(folder, O_CREAT)) {
  if (lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  if (lock_ >= 0) close(lock_);
  throw Error(ErrorKind::environment,
              reason == EWOULDBLOCK
                  ? std::string("expected a run without an `orrery run`, found one that another "
                                "process has taken over: orrery runs")
                  : fmt::format("{}{}: {}", folder, kLockFile, std::strerror(reason)));
}

RunRecord::~RunRecord() { close(lock_); }

SavedRun RunRecord::read_record() const { return record_in(folder_); }

bool RunRecord::is_due(const live::RunRemains& remains) const {
  const live::RunAccount &now = remains.account, &before = written_.account;
  return live::monotonic_s() - written_s_ > kRewrite_s || remains.processes != written_.processes ||
         remains.is_attached != written_.is_attached || now.epoch.number != before.epoch.number ||
         now.losses.size() != before.losses.size() || now.ended != before.ended;
}

void RunRecord::write_record(const SavedRun& run) {
  if (!is_due(run.remains)) return;
  const std::string text = json{{"arguments", run.arguments},     {"directory", run.directory},
                                {"snapshots", run.snapshots},     {"began_s", run.began_s},
                                {"weighs", run.weighs},           {"attempt", run.attempt},
                                {"remains", json_of(run.remains)}}
                               .dump();
  const std::string fresh = folder_ + kRecordFile + ".new";
  {
    std::ofstream file(fresh, std::ios::binary);
    if (!(file << text).flush()) return;
  }
  if (std::rename(fresh.c_str(), (folder_ + kRecordFile).c_str()) != 0) return;
  written_ = run.remains;
  written_s_ = live::monotonic_s();
}

bool is_unwatched(const LiveRun& run) {
  const int lock = open_lock(run.folder, 0);
  if (lock < 0) return false;
  const bool is_free = flock(lock, LOCK_SH | LOCK_NB) == 0;
  close(lock);
  return is_free && run.is_living();
}

std::string takeover_command(const LiveRun& run) { return "orrery run --take-over " + run.id; }

void require_watched(const LiveRun& run) {
  if (!is_unwatched(run)) return;
  throw Error(
      ErrorKind::usage,
      fmt::format("expected a run with an `orrery run`, but that of run {} ({}) was killed, "
                  "and its ranks go on alone; take it over first: {}",
                  run.id, run.text("scenario"), takeover_command(run)));
}

void exec_successor(const std::string& name) {
  const LiveRun run = find_run(name);
  if (!is_unwatched(run)) {
    throw Error(ErrorKind::usage,
                fmt::format("--take-over: expected a program whose `orrery run` was killed, found "
                            "run {} ({}), which has its own process",
                            run.id, run.text("scenario")));
  }
  const SavedRun saved = record_in(run.folder);
  if (!saved.remains.is_attached) {
    throw Error(ErrorKind::environment,
                fmt::format("--take-over: expected a program whose ranks have fault-tolerant "
                            "process groups, but ranks of run {} ({}) have none: they end by "
                            "themselves",
                            run.id, run.text("scenario")));
  }
  adopt_environment(saved.remains);
  for (const auto& [key, value] : saved.attempt) set_variable(key.c_str(), value);
  set_variable(kTakenVariable, run.folder);
  std::error_code failure;
  fs::current_path(saved.directory, failure);
  std::vector<char*> words;
  for (const std::string& each : saved.arguments) words.push_back(const_cast<char*>(each.c_str()));
  words.push_back(nullptr);
  if (!failure) execv("/proc/self/exe", words.data());
  throw Error(ErrorKind::environment,
              fmt::format("--take-over: cannot start the successor in {}: {}", saved.directory,
                          failure ? failure.message() : std::strerror(errno)));
}

std::unique_ptr<RunRecord> lock_taken_run() {
  const char* const folder = std::getenv(kTakenVariable);
  if (folder == nullptr) return nullptr;
  const std::string taken = folder;
  unsetenv(kTakenVariable);
  return std::make_unique<RunRecord>(taken);
}

SavedRun started_run(const std::string& folder, const std::string& snapshots) {
  return {.folder = folder,
          .arguments = texts_in("/proc/self/cmdline"),
          .directory = fs::current_path().string(),
          .snapshots = snapshots,
          .began_s = live::monotonic_s(),
          .weighs = true,
          .remains = {}};
}

}  // namespace orrery::cli
