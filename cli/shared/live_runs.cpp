#include "cli/shared/live_runs.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "cli/shared/cluster_status.hpp"
#include "cli/shared/twin_status.hpp"
#include "core/error.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Returns true if the folder belongs to this user, has a run's marker, and a living run has locked
/// it.
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

}  // namespace

void LiveRun::read_status() {
  std::ifstream file(folder + "/" + live::kStatusFile);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  ordered_json read = ordered_json::parse(text, nullptr, false);
  status = read.is_discarded() ? ordered_json() : std::move(read);
}

bool LiveRun::is_living() const { return is_run(folder); }

bool LiveRun::is_cluster() const { return text("kind") == kClusterKind; }

bool LiveRun::is_twin() const { return text("kind") == kTwinKind; }

std::string LiveRun::checkpoint() const {
  const auto step =
      status.is_object() ? status.value("saved_step", ordered_json()) : ordered_json();
  return step.is_number() ? fmt::format("step {}", step.get<std::uint64_t>()) : "none";
}

std::vector<LiveRun> find_runs() {
  std::vector<LiveRun> runs;
  std::error_code failure;
  for (fs::directory_iterator at(live::run_parent(), failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename();
    if (!name.starts_with(live::kRunPrefix) || !is_run(at->path())) continue;
    runs.push_back({name.substr(std::strlen(live::kRunPrefix)), at->path(), {}});
    runs.back().read_status();
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return runs;
}

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
                          "'{}'{}; there are:{}",
                          name, fitting.size() > 1 ? ", which matches several" : "", known));
}

void add_run_argument(CLI::App& command, std::string& name, bool required) {
  CLI::Option* run = command.add_option(
      "RUN", name, "id of the run, its first characters, or the scenario's name");
  if (required) run->required();
}

}  // namespace orrery::cli
