// Reports of the steps of a rank on their way to `orrery run`: the thread of the training adds
// them, the thread of the connection makes and sends them a little later. Plain C++ without
// PyTorch, compiled into the user's program. Any thread. Seconds of one monotonic clock.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Reports of one rank that are not sent yet. Sending a message is a system call that wakes the
/// receiver; adding a report is none. The connection looks for reports when the next step ends, if
/// the step takes as long as the one before. Example: steps end at 0 and 80 ms. The next look is at
/// 165 ms, a sixteenth of a step after the expected end.
class StepReports {
 public:
  /// Makes the message of a report. Called once, on the thread that sends it.
  using Report = std::function<Fields()>;

  /// Adds a report behind the earlier ones; does nothing after close_reports(). `end_s`: end of the
  /// step, if this report is the last one of its step.
  void add_report(Report report, std::optional<double> end_s = {});
  /// Removes all reports and returns their frames, oldest first.
  std::string drain_frames();
  /// Returns the instant of the next look, 2 to 100 ms after `now_s`.
  double next_look_s(double now_s);
  /// Removes all reports, and accepts no further ones until open_reports().
  void close_reports();
  /// Accepts reports again, for a new receiver.
  void open_reports();

 private:
  std::mutex mutex_;
  std::vector<Report> reports_;
  std::optional<double> newest_s_, interval_s_;  ///< end of the newest step, and its duration
  bool is_closed_ = false;
};

}  // namespace orrery::live
