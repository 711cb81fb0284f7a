// Parts that all forms of `orrery twin` share: the known forecasts as a table, the times of the
// forecasts, and the files of --out. One thread.
#pragma once

#include <string>
#include <vector>

#include "cli/shared/twin_output.hpp"
#include "policies/run/worker.hpp"
#include "sim/forecast/twin.hpp"

namespace orrery::cli {

/// Collector of the known forecasts and of the times of the forecasts.
class TwinRecord {
 public:
  /// Connects the callbacks in the options of a sim::Twin or sim::RunTwin; this object must outlive
  /// the twin. `decimals`: those of the seconds in the table.
  template <class Options>
  void connect_twin(Options& options, bool with_table, int decimals) {
    options.clock_s = [this] {
      HostUse host;
      meter_.fill(host);
      return host.wall_s();
    };
    if (!with_table) return;
    table_ = sim::known_forecasts_header();
    options.at_known = [this, decimals](const sim::KnownForecast& known) {
      sim::write_known(known, decimals, table_);
    };
  }
  const std::string& table() const { return table_; }

 private:
  HostMeter meter_;
  std::string table_;
};

/// Returns median, 99th percentile and maximum of durations; zeros for none.
DecisionTimes times_of(std::vector<double> seconds);

/// Writes forecasts.csv and score.csv into the folder `out`, which is created; nothing if `out` is
/// empty. Throws an environment Error if the files cannot be written.
void write_tables(const std::string& out, const std::string& forecasts, const std::string& score);

}  // namespace orrery::cli
