// Status of a run for its operator.
#pragma once

#include <string>
#include <utility>

#include "core/ids.hpp"
#include "live/run/operator/run_status.hpp"
#include "live/run/operator/status_file.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

/// Returns a line of text that describes an event: lost or suspected ranks, a hold, the start or
/// the end of training, an outcome of a checkpoint or a decision, a parameter, an announced removal
/// of a part. Empty for all other events, for example steps, ticks, submissions, stops of the job
/// and other changes of parts.
std::string describe(const Event& event);

/// Returns the status in Prometheus' text format, one metric family after the other; omits
/// measurements of GPUs that no driver reports.
std::string prometheus_text(const RunStatus& status);

/// Publisher of the status of a live run: its RunStatus as StatusFile. All methods belong to one
/// thread. Instants are times of the policy clock.
class StatusBoard {
 public:
  /// Starts the publisher; parameters and errors are those of StatusFile.
  StatusBoard(std::string folder, std::string metrics)
      : file_(std::move(folder), std::move(metrics)) {}

  /// Adds a line about an event at `at`; ignores empty lines. The status holds the newest lines
  /// (StatusFile::kMostLines).
  void add_line(Nanos at, std::string what) { file_.add_line(at, std::move(what)); }
  /// Returns true if the status is due to be published: see StatusFile::is_due().
  bool is_due() const { return file_.is_due(); }
  /// Publishes the status with the newest lines; is_due() is then false until the next status is
  /// due. Does not wait for a file, and ignores files that cannot be written.
  void publish_status(const RunStatus& status);
  /// Publishes the last status of the run and waits for its file, at most for two seconds. If a
  /// viewer has looked within the last second, blocks for half a second to give it the time to read
  /// the status.
  void show_last(const RunStatus& status);

 private:
  StatusFile file_;
};

}  // namespace orrery::live
