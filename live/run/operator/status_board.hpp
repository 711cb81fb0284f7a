// Status of a run for its operator.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "live/machine/host_clock.hpp"
#include "live/run/files/file_writer.hpp"
#include "live/run/operator/metrics_socket.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

/// Status of a run at one instant.
struct RunStatus {
  /// Status of one rank.
  struct Rank {
    std::uint32_t rank = 0;
    std::string state;     ///< State: working, spare, testing, fenced, joining, lost.
    std::int64_t pid = 0;  ///< Process id on its machine; 0: no process, or not connected yet.
    std::uint64_t step = 0, micro_batches = 0;
    /// Measurements of the rank's GPU, as far as its driver reports them.
    DeviceReading device = {};
  };
  /// Phase: starting, training, waiting (for GPUs), held, stopping, over.
  std::string scenario, mode, phase;
  Step step = 0, steps = 0;
  double elapsed_s = 0, step_time_s = 0, loss = 0;
  std::uint64_t samples = 0;        ///< Sequences of the committed steps.
  std::uint64_t batch = 0;          ///< Micro-batches of a step.
  double learning_rate_factor = 1;  ///< Factor on the declared learning rate.
  double delay_s = 0;               ///< Delay of the step in progress.
  std::uint64_t epoch = 0, losses = 0, decisions = 0, controller_restarts = 0;
  std::uint64_t checkpoints_written = 0, checkpoints_failed = 0;
  std::uint64_t ranks_missing = 0;  ///< Ranks that the job lacks now.
  bool keeps_checkpoints = false;   ///< The run has a folder for checkpoints.
  std::optional<Step> saved;        ///< Step at which the newest durable checkpoint resumes.
  /// Decision that waits for the operator's approval.
  struct Question {
    std::uint64_t decision = 0;
    double at_s = 0;
    std::string what, why;
  };
  /// Planned removal of a part, from its announcement to its return.
  struct PlannedRemoval {
    Part part;
    Health health{};  ///< Lost once the part is removed.
    Removal what;
  };
  /// Part that works with less than the rate of its data sheet.
  struct SlowerPart {
    Part part;
    double rate = 1;     ///< Share of the rate that is left.
    double since_s = 0;  ///< Instant of the newest change of the part.
  };
  std::vector<Rank> ranks;
  std::vector<PlannedRemoval> removals;
  std::vector<SlowerPart> slower;
  std::vector<std::string> policies;
  double policy_time_s = 0;  ///< Real time of all calls of the policies.
  /// Time since the begin of the current call of the policies; absent: no call.
  std::optional<double> policy_waiting_s;
  std::string without_takeover;  ///< Reason why no controller could take over; empty: one can.
  std::string policy_asked;      ///< Policy that owes an answer; empty without a current call.
  std::vector<Question> questions;
};

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
