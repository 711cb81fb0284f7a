// Status of a run for its operator.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "core/ids.hpp"
#include "live/machine/host_clock.hpp"
#include "live/run/files/file_writer.hpp"
#include "live/run/operator/metrics_socket.hpp"
#include "live/run/operator/run_status.hpp"
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

/// Publisher of a run's status: a JSON file in the run's folder, replaced about once a second, with
/// the newest events; and the same numbers as Prometheus text, if a file or socket is configured. A
/// thread for each of the two files writes them: a slow or hung disk delays no step, and a hung
/// disk of the user does not delay the status. All methods belong to one thread. Instants are times
/// of the policy clock.
class StatusBoard {
 public:
  /// Starts the publisher. `folder`: folder of the run. `metrics`: empty, or the path of the
  /// Prometheus file, or "unix:" and the path of a socket. Throws an environment Error if the
  /// socket cannot listen.
  StatusBoard(std::string folder, std::string metrics);
  /// Waits until the files hold the newest texts or their writing has failed, at most for two
  /// seconds each.
  ~StatusBoard();

  /// Adds a line about an event at `at`; ignores empty lines. The status holds the newest 200
  /// lines.
  void add_line(Nanos at, std::string what);
  /// Returns true if the newest publish_status() is more than a second ago, or more than a tenth of
  /// a second if a line has been added since; also before the first publish_status().
  bool is_due() const;
  /// Publishes the status with the newest lines; is_due() is then false until the next status is
  /// due. Does not wait for a file, and ignores files that cannot be written.
  void publish_status(const RunStatus& status);
  /// Publishes the last status of the run and waits for its file, at most for two seconds. If a
  /// viewer has looked within the last second, blocks for half a second to give it the time to read
  /// the status.
  void show_last(const RunStatus& status);

 private:
  /// Line about an event.
  struct Note {
    std::uint64_t number = 0;
    Nanos at = 0;
    std::string what;
  };
  const std::string folder_, metrics_;
  std::deque<Note> notes_;  ///< Newest lines.
  std::uint64_t noted_ = 0, shown_ = 0;
  Clock::time_point shown_at_;
  FileWriter status_writer_, metrics_writer_;
  std::optional<MetricsSocket> socket_;
};

}  // namespace orrery::live
