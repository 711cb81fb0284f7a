// Parts that all forms of `orrery twin` share: options, the files of --out, and the times of the
// forecasts. One thread.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/shared/twin_output.hpp"
#include "policies/run/worker.hpp"
#include "sim/forecast/twin.hpp"

namespace orrery::cli {

/// Writer of the files of --out, which can be read while the twin runs, and clock of the forecasts.
/// Without a folder it writes nothing. All methods throw an environment Error if a file cannot be
/// written.
class TwinRecord {
 public:
  /// Creates the folder `out`, unless it is empty, and begins forecasts.csv and policies.csv in it.
  /// `decimals`: those of the seconds in the tables.
  TwinRecord(const std::string& out, int decimals);

  /// Connects the callbacks in the options of a sim::Twin or sim::RunTwin; this object must outlive
  /// the twin.
  template <class Options>
  void connect_twin(Options& options) {
    options.clock_s = [this] {
      HostUse host;
      meter_.fill(host);
      return host.wall_s();
    };
    if (out_.empty()) return;
    options.at_known = [this](const sim::KnownForecast& known) {
      sim::write_known(known, decimals_, known_);
    };
  }
  /// Appends the goals of a forecast to policies.csv, and the known forecasts to forecasts.csv.
  void add_goals(Nanos made, const std::vector<PolicyGoal>& goals);
  /// Replaces now.csv.
  void write_now(const TwinFigures& figures) const;
  /// Replaces score.csv by `score`, and appends the known forecasts to forecasts.csv.
  void write_score(const std::string& score);

 private:
  std::string path_of(const char* file) const;
  void append_known();
  void append_text(std::ofstream& file, const char* name, const std::string& text) const;

  const std::string out_;
  const int decimals_;
  HostMeter meter_;
  std::string known_;  ///< lines of forecasts.csv that are not written yet
  std::ofstream forecasts_, policies_;
};

/// Declares --out of a command; `out` must outlive the parsing of the command line.
void add_tables(CLI::App& command, std::string& out);

/// Returns the names of --policy and then those of --choose, each once.
std::vector<std::string> joined(std::vector<std::string> policies,
                                const std::vector<std::string>& candidates);

/// Returns median, 99th percentile and maximum of durations; zeros for none.
DecisionTimes times_of(std::vector<double> seconds);

}  // namespace orrery::cli
