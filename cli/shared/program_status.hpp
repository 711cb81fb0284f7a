// Status of a user's program for other terminals: `orrery runs`, `status`, `attach` and `stop` read
// and write the files of its folder, as those of a live run (live/run/files/run_files.hpp). One
// thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/shared/listed_folder.hpp"
#include "live/programs/program_run.hpp"
#include "live/run/operator/status_file.hpp"
#include "policies/run/policy_meter.hpp"
#include "policies/seam/event.hpp"

namespace orrery::cli {

/// Returns the process groups of a program for a report or a status: for each kind name, ranks of a
/// group, number of groups, and the first operation that no loss may interrupt, null if none.
nlohmann::ordered_json groups_json(const std::vector<live::GroupKind>& kinds);

/// Folder of one run with its status, which is replaced about once a second.
class ProgramStatus {
 public:
  /// Creates the folder. `name`: name of the program. `policies`: their names; `mode`: the mode of
  /// their decisions, empty without policies. `metrics`: as of live::StatusFile. Throws an
  /// environment Error if the folder cannot be created or the socket cannot listen, and as
  /// run_parent(). `taken`: folder of a run that this process takes over, which began at
  /// `began_s`; empty: a new run.
  ProgramStatus(std::string name, std::string mode, std::vector<std::string> policies,
                std::string metrics = "", const std::string& taken = "", double began_s = 0);

  /// Returns the folder, without a slash at its end.
  std::string folder() const { return folder_.path().substr(0, folder_.path().size() - 1); }
  /// Lets the ranks keep the run listed if this process is killed. Call before the first rank is
  /// started, and claim_lock() now and then.
  void share_lock() { folder_.share_lock(); }
  void claim_lock() { folder_.claim_lock(); }

  /// Shows from now on how long the policies of `meter`, which must outlive this object, decide.
  void watch_policies(const PolicyMeter& meter) { meter_ = &meter; }
  /// Adds a line about an event; the status holds the newest 200 lines.
  void add_line(const std::string& what);
  /// Publishes the status if that is due, or if the program has named a folder for snapshots.
  /// `run`: the attempt that runs; null between two attempts.
  void publish_status(const live::ProgramRun* run);
  /// Returns the changes of parameters that `orrery set` has ordered since the last call, oldest
  /// first; refuses all other orders in a line. Looks at most four times a second.
  std::vector<ParameterSet> drain_parameters();
  /// Obeys `orrery stop`: returns SIGTERM once after an order without a checkpoint, else 0. After
  /// one with a checkpoint lets `run` save and end, and accepts another order if that fails.
  int obey_stop(live::ProgramRun& run);

 private:
  std::string metrics_of(const live::ProgramRun* run) const;
  nlohmann::ordered_json fields_of(const live::ProgramRun* run) const;

  const std::string name_, mode_;
  const std::vector<std::string> policies_;
  const PolicyMeter* meter_ = nullptr;  ///< null without policies
  ListedFolder folder_;
  const double began_s_;
  double looked_s_ = 0;
  live::StatusFile file_;
  bool keeps_snapshots_ = false;  ///< value of the newest status
  bool is_stopped_ = false, saves_ = false;
};

}  // namespace orrery::cli
