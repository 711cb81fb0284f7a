// Whole live runs for tests: started as the command line starts them, looked at from outside.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "live/run/files/run_files.hpp"
#include "live/run/files/run_folder.hpp"
#include "policies/run/worker.hpp"
#include "tests/live/lighter.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::live {

/// Settings that a live run can execute.
inline constexpr Kinds<Setting> kLiveSettings =
    Kinds<Setting>::all() - Kinds<Setting>::of<PowerCap, Prefetch>();
inline const std::string kProgram = ORRERY_BINARY_DIR "/bin/orrery-live";

/// Four ranks, eight micro-batches of 40 ms a step.
inline RunRequest request(const std::vector<std::string>& overrides) {
  std::vector<std::string> all =
      lighter({"job.global_batch=8", "run.steps=6", "faults=[]", "policies=[{name: static}]"});
  all.insert(all.end(), overrides.begin(), overrides.end());
  RunRequest out;
  *out.mutable_scenario() =
      load_scenario(ORRERY_SOURCE_DIR "/examples/straggler-4-ranks.yaml", all).scenario;
  out.set_mode("drive");
  out.set_fabric("grpc");
  return out;
}

/// Parent of the folders of this process's runs: tests that run at the same time do not find each
/// other's runs and processes.
class OwnRuns {
 public:
  OwnRuns() : path_("/tmp/orrery-tests-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
    setenv(kRunParentVariable, path_.c_str(), 1);
  }
  ~OwnRuns() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnRuns(const OwnRuns&) = delete;
  OwnRuns& operator=(const OwnRuns&) = delete;
  const std::string& path() const { return path_; }

  /// Whether the process has the environment of our runs.
  bool has_process(const std::filesystem::path& process) const {
    std::ifstream file(process / "environ");
    const std::string all(std::istreambuf_iterator<char>(file), {});
    return all.find(std::string(kRunParentVariable) + "=" + path_) != std::string::npos;
  }

 private:
  std::string path_;
};
inline const OwnRuns kOwnRuns;

/// Processes that run our program as `role` (agent, controller), of the runs of this test.
inline std::vector<pid_t> processes(const std::string& role) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code failure;
    const auto program = std::filesystem::read_symlink(entry.path() / "exe", failure);
    if (failure || program != std::filesystem::canonical(kProgram)) continue;
    if (!kOwnRuns.has_process(entry.path())) continue;
    std::string line;
    std::ifstream(entry.path() / "cmdline") >> line;
    if (line.find(role) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

inline std::vector<pid_t> agents() { return processes("agent"); }
/// Process of the rank or the warm spare on the GPU; 0 if there is none.
inline pid_t agent_on(std::uint32_t gpu) {
  const auto found = processes(std::string("agent\0--rank\0", 13) + std::to_string(gpu) + '\0');
  return found.empty() ? 0 : found.front();
}
inline std::vector<pid_t> controllers() { return processes("controller"); }

/// Returns the parent of a process.
inline pid_t parent_of(pid_t process) {
  std::string name, state;
  pid_t parent = 0, self = 0;
  std::ifstream("/proc/" + std::to_string(process) + "/stat") >> self >> name >> state >> parent;
  return parent;
}

/// Waits until `done`, at most a minute; returns its last result.
inline bool eventually(const std::function<bool()>& done) {
  for (int i = 0; i < 6000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return done();
}

/// Folders of runs that are no longer there; a living run holds the lock of its folder.
inline std::set<std::string> run_folders() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(kOwnRuns.path())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("orrery-live-")) continue;
    const int folder = open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) continue;
    if (flock(folder, LOCK_EX | LOCK_NB) == 0) found.insert(name);
    close(folder);
  }
  return found;
}

/// Whether every folder of a run that was not here at the start is gone.
inline bool no_new_folder() {
  static const std::set<std::string> kBefore = run_folders();
  return std::ranges::includes(kBefore, run_folders());
}
inline const bool kFirstLook = no_new_folder();

inline void expect_nothing_left() {
  EXPECT_TRUE(eventually([] { return agents().empty() && controllers().empty(); }));
  EXPECT_TRUE(kFirstLook && eventually(no_new_folder));
}

}  // namespace orrery::live
