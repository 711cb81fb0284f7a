// Status of a running twin for other terminals: `orrery runs`, `status`, `attach` and `stop` read
// and write the files of its folder, as those of a live run (live/run/files/run_files.hpp). One
// thread; forecasts in nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/shared/listed_folder.hpp"
#include "cli/shared/twin_output.hpp"
#include "live/machine/host_clock.hpp"
#include "live/run/operator/status_file.hpp"

namespace orrery::cli {

/// Value of the key `kind` in the status of a twin.
inline constexpr std::string_view kTwinKind = "twin";

/// Folder of one twin with its status and metrics.
class TwinStatus {
 public:
  /// Creates the folder. `name`: name of the run, for example "twin-slurm". `metrics`: see
  /// live::StatusFile. `policies`: the active policy first. Throws an environment Error if the
  /// folder cannot be created or the socket cannot listen, and as live::run_parent().
  TwinStatus(std::string name, std::string metrics, std::vector<std::string> policies);

  /// Adds a line about an event; the status holds the newest lines.
  void add_line(std::string what) { file_.add_line(live::since(began_), std::move(what)); }
  /// Shows these figures from now on.
  void show_figures(TwinFigures figures);
  /// Returns true if the next is_to_end() publishes the status.
  bool is_due() const { return file_.is_due(); }
  /// Refuses the orders that have arrived except that to stop, and publishes the status if this is
  /// due. Returns true if the twin is to end: by an order or a signal (StopSignals). Call many
  /// times a second.
  bool is_to_end();
  /// Publishes the last status, and waits a little for viewers.
  void show_last();

 private:
  void read_orders();
  nlohmann::ordered_json fields() const;
  std::string metrics() const;

  const std::string name_;
  const std::vector<std::string> policies_;
  const ListedFolder folder_;
  const live::Clock::time_point began_ = live::Clock::now();
  live::Clock::time_point looked_;
  live::StatusFile file_;
  TwinFigures figures_;
  nlohmann::ordered_json now_ = nlohmann::ordered_json::array();  ///< the newest forecasts
  bool is_stopped_ = false;
};

}  // namespace orrery::cli
