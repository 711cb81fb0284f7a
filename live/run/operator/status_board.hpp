// What an operator sees of a run: a file of JSON in the run's folder, replaced about once a second,
// with what has happened lately; and the same numbers as Prometheus' text where a file for that is
// named. The latter is on the user's disk, so a thread of its own writes it: a disk that hangs
// holds up no step. The rest is one thread's. Instants are the policy clock's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "live/machine/host_clock.hpp"
#include "live/run/operator/metrics_socket.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

/// What the run stands at.
struct RunStatus {
  struct Rank {
    std::uint32_t rank = 0;
    std::string state;     ///< working, joining, lost, left
    std::int64_t pid = 0;  ///< 0: elsewhere, or none
    std::uint64_t step = 0, micro_batches = 0;
    DeviceReading device = {};  ///< of its GPU, as far as its driver tells
  };
  std::string scenario, mode, phase;  ///< starting, training, held, stopping, over
  Step step = 0, steps = 0;
  double elapsed_s = 0, step_time_s = 0, loss = 0;
  std::uint64_t epoch = 0, losses = 0, decisions = 0, controller_restarts = 0;
  std::uint64_t checkpoints_written = 0, checkpoints_failed = 0;
  std::optional<Step> saved;  ///< the step that the newest durable checkpoint goes on from
  /// A decision that waits for a yes.
  struct Question {
    std::uint64_t decision = 0;
    double at_s = 0;
    std::string what, why;
  };
  std::vector<Rank> ranks;
  std::vector<std::string> policies;
  std::vector<Question> questions;
};

/// In a line, for people; empty for what is no news (steps, ticks, outcomes that hold).
std::string describe(const Event& event);

/// In Prometheus' text format, one family after the other.
std::string prometheus_text(const RunStatus& status);

class StatusBoard {
 public:
  /// `folder`: of the run. `metrics`: empty, or the file for Prometheus' text, or "unix:" and a
  /// socket's path. Throws an environment Error if it cannot listen there.
  StatusBoard(std::string folder, std::string metrics);
  ~StatusBoard();

  void note(Nanos at, std::string what);
  /// True about once a second, and as soon as something has been noted.
  bool due() const;
  void show(const RunStatus& status);
  /// The same at the end of the run; whoever is attached gets the time to see it.
  void show_last(const RunStatus& status);

 private:
  struct Note {
    std::uint64_t number = 0;
    Nanos at = 0;
    std::string what;
  };
  void write_metrics(const std::stop_token& stop);

  const std::string folder_, metrics_;
  std::deque<Note> notes_;  ///< the newest
  std::uint64_t noted_ = 0, shown_ = 0;
  Clock::time_point shown_at_;
  std::mutex mutex_;  // of the text, which the thread takes
  std::condition_variable_any changed_;
  std::optional<std::string> text_;
  std::jthread writer_;
  std::optional<MetricsSocket> socket_;
};

}  // namespace orrery::live
