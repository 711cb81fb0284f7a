// orrery runs, status, attach, stop: live runs of this user as seen from another terminal. Each run
// shows what it stands at in a folder of its own, and looks there for orders.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/help.hpp"
#include "core/error.hpp"
#include "live/run/run_files.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kLookMs = 250;

struct LiveRun {
  std::string id;  ///< what the name of its folder ends with
  std::string folder;
  ordered_json status;  ///< null: it has not shown any yet
  std::string text(const char* key) const {
    return status.is_object() ? status.value(key, std::string("-")) : "-";
  }
  template <class Number>
  Number number(const char* key) const {
    return status.is_object() && status.contains(key) && status[key].is_number()
               ? status[key].get<Number>()
               : Number{};
  }
};

/// A folder of this user's that holds a run's marker and that a living run has locked.
bool is_run(const fs::path& folder) {
  struct stat status {};
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0) return false;
  const bool ours = fstat(opened, &status) == 0 && status.st_uid == geteuid() &&
                    faccessat(opened, live::kRunMarker, R_OK, AT_SYMLINK_NOFOLLOW) == 0;
  const bool living = ours && flock(opened, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(opened);
  return living;
}

ordered_json read_status(const std::string& folder) {
  std::ifstream file(folder + "/" + live::kStatusFile);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  ordered_json status = ordered_json::parse(text, nullptr, false);
  return status.is_discarded() ? ordered_json() : status;
}

std::vector<LiveRun> find_runs() {
  std::vector<LiveRun> runs;
  std::error_code failure;
  for (fs::directory_iterator at(live::kRunParent, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(live::kRunPrefix) || !is_run(at->path())) continue;
    runs.push_back({name.substr(std::strlen(live::kRunPrefix)), at->path(),
                    read_status(at->path())});
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return runs;
}

/// By its id, the beginning of it, or the scenario's name; the only one there is if none is named.
LiveRun find_run(const std::string& name) {
  std::vector<LiveRun> runs = find_runs();
  std::vector<LiveRun> fitting;
  for (const LiveRun& run : runs) {
    const bool exact = run.id == name;
    if (exact) return run;
    if (name.empty() || run.id.starts_with(name) || run.text("scenario") == name) {
      fitting.push_back(run);
    }
  }
  if (fitting.size() == 1) return fitting[0];
  std::string known;
  for (const LiveRun& run : runs) known += fmt::format(" {} ({})", run.id, run.text("scenario"));
  if (runs.empty()) known = " none";
  throw Error(ErrorKind::usage,
              fmt::format("expected a live run of this user, by its id or its scenario's name, got "
                          "'{}'{}; there are:{}", name,
                          fitting.size() > 1 ? ", which could be several" : "", known));
}

std::string saved(const LiveRun& run) {
  const auto step = run.status.is_object() ? run.status.value("saved_step", ordered_json())
                                           : ordered_json();
  return step.is_number() ? fmt::format("step {}", step.get<std::uint64_t>()) : "none";
}

int list_runs(bool json) {
  const std::vector<LiveRun> runs = find_runs();
  if (json) {
    ordered_json out = ordered_json::array();
    for (const LiveRun& run : runs) {
      ordered_json each = run.status.is_object() ? run.status : ordered_json::object();
      each["run"] = run.id;
      each.erase("events");
      out.push_back(each);
    }
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  if (runs.empty()) fmt::print("no live run of this user\n");
  for (const LiveRun& run : runs) {
    fmt::print("{}  {:<24} {:<9} step {} of {}, {} lost, checkpoint {}\n", run.id,
               run.text("scenario"), run.text("phase"), run.number<std::uint64_t>("step"),
               run.number<std::uint64_t>("steps"), run.number<std::uint64_t>("losses"), saved(run));
  }
  return 0;
}

void print_status(const LiveRun& run) {
  fmt::print("run {}  {}  {}  ({})\n", run.id, run.text("scenario"), run.text("phase"),
             run.text("mode"));
  fmt::print("  step {} of {}, {:.1f} s; newest step {:.3f} s, loss {:.4f}\n",
             run.number<std::uint64_t>("step"), run.number<std::uint64_t>("steps"),
             run.number<double>("elapsed_s"), run.number<double>("step_time_s"),
             run.number<double>("loss"));
  fmt::print("  ranks lost {}, controllers lost {}, decisions {}, checkpoints {} ({} failed), "
             "newest {}\n",
             run.number<std::uint64_t>("losses"), run.number<std::uint64_t>("controller_restarts"),
             run.number<std::uint64_t>("decisions"),
             run.number<std::uint64_t>("checkpoints_written"),
             run.number<std::uint64_t>("checkpoints_failed"), saved(run));
  if (!run.status.is_object()) return;
  for (const auto& rank : run.status.value("ranks", ordered_json::array())) {
    fmt::print("  rank {:<4} {:<8} pid {:<8} step {}, micro-batch {}\n",
               rank.value("rank", 0u), rank.value("state", "-"), rank.value("pid", 0),
               rank.value("step", 0u), rank.value("micro_batches", 0u));
  }
}

bool still_there(const LiveRun& run) { return is_run(run.folder); }

int show_status(const std::string& name, bool json, bool watch) {
  LiveRun run = find_run(name);
  do {
    if (json) {
      run.status["run"] = run.id;
      fmt::print("{}\n", run.status.dump(watch ? -1 : 2));
    } else {
      print_status(run);
    }
    std::fflush(stdout);
    if (!watch) return 0;
    poll(nullptr, 0, 4 * kLookMs);
    run.status = read_status(run.folder);
  } while (still_there(run));
  fmt::print("run {} has ended\n", run.id);
  return 0;
}

/// What happens from now on, and what has happened lately, until the run has ended.
int attach(const std::string& name) {
  LiveRun run = find_run(name);
  std::uint64_t shown = 0;
  do {
    run.status = read_status(run.folder);
    const auto events = run.status.is_object() ? run.status.value("events", ordered_json::array())
                                               : ordered_json::array();
    for (const auto& event : events) {
      const auto number = event.value("number", std::uint64_t{0});
      if (number <= shown) continue;
      shown = number;
      fmt::print("{:10.2f} s  {}\n", event.value("at_s", 0.0), event.value("what", ""));
    }
    std::fflush(stdout);
    poll(nullptr, 0, kLookMs);
  } while (still_there(run));
  fmt::print("run {} has ended\n", run.id);
  return 0;
}

int stop(const std::string& name, bool checkpoint) {
  const LiveRun run = find_run(name);
  const std::string path = run.folder + "/" + live::kStopFile;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0 && errno == EEXIST) {
    fmt::print("run {} has been asked to stop before\n", run.id);
    return 0;
  }
  const std::string how = checkpoint ? "checkpoint\n" : "now\n";
  const bool written =
      file >= 0 && write(file, how.data(), how.size()) == static_cast<ssize_t>(how.size());
  if (file >= 0) close(file);
  if (!written) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot leave the order in {}: {}", path, std::strerror(errno)));
  }
  fmt::print("run {} ends after the step under way{}\n", run.id,
             checkpoint ? ", with a checkpoint" : "");
  return 0;
}

struct Options {
  std::string run;
  bool json = false, watch = false, checkpoint = false;
};

std::shared_ptr<Options> options_of(CLI::App& command, bool required) {
  const auto options = std::make_shared<Options>();
  CLI::Option* run = command.add_option(
      "RUN", options->run, "id of the run, the beginning of it, or the scenario's name");
  if (required) run->required();
  return options;
}

}  // namespace

void add_runs(CLI::App& app, Action& chosen) {
  CLI::App* list = app.add_subcommand("runs", "live runs of this user on this machine");
  const auto json = std::make_shared<bool>(false);
  list->add_flag("--json", *json, "print JSON");
  add_examples(*list, {"orrery runs"});
  list->callback([json, &chosen] { chosen = [json] { return list_runs(*json); }; });

  CLI::App* look = app.add_subcommand("status", "what a live run stands at");
  const auto looked = options_of(*look, false);
  look->add_flag("--json", looked->json, "print JSON; with --watch a line a second");
  look->add_flag("--watch", looked->watch, "again every second until the run has ended");
  add_examples(*look, {"orrery status", "orrery status a1B2c3 --watch"});
  look->callback([looked, &chosen] {
    chosen = [looked] { return show_status(looked->run, looked->json, looked->watch); };
  });

  CLI::App* follow =
      app.add_subcommand("attach", "losses, recoveries, decisions and checkpoints of a live run");
  const auto followed = options_of(*follow, false);
  add_examples(*follow, {"orrery attach a1B2c3"});
  follow->callback(
      [followed, &chosen] { chosen = [followed] { return attach(followed->run); }; });

  CLI::App* end = app.add_subcommand("stop", "end a live run after the step under way");
  const auto ended = options_of(*end, true);
  end->add_flag("--checkpoint", ended->checkpoint, "with a checkpoint, where the run keeps any");
  add_examples(*end, {"orrery stop a1B2c3 --checkpoint"});
  end->callback([ended, &chosen] {
    chosen = [ended] { return stop(ended->run, ended->checkpoint); };
  });
}

}  // namespace orrery::cli
