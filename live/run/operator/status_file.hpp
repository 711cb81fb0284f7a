// Published status of any run that `orrery runs` lists: a JSON file in the run's folder, and
// metrics for Prometheus. Used by live/run/operator/status_board, `orrery run` and `orrery
// cluster`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/ids.hpp"
#include "live/machine/host_clock.hpp"
#include "live/run/files/file_writer.hpp"
#include "live/run/operator/metrics_socket.hpp"

namespace orrery::live {

/// Returns a text as the value of a label in Prometheus' text format, escaped for quotes.
std::string metric_label(std::string_view text);
/// Returns a metric family with one value in Prometheus' text format. For example, ("steps_total",
/// "counter", "Committed steps.", "scenario=\"a\"", 3) gives orrery_steps_total{scenario="a"} 3
/// below two lines of comment.
std::string metric_family(std::string_view name, std::string_view kind, std::string_view help,
                          std::string_view labels, double value);

/// Publisher of a run's status: replaces the JSON file about once a second, with the newest lines
/// about events, and the metrics, if a file or socket is configured. A thread for each of the two
/// files writes them: a slow or hung disk delays no run, and a hung disk of the user does not delay
/// the status. All methods belong to one thread. Instants are times of the run's clock.
class StatusFile {
 public:
  /// Newest lines about events that the status holds.
  static constexpr std::size_t kMostLines = 200;

  /// Starts the publisher. `folder`: folder of the run. `metrics`: empty, or the path of the
  /// Prometheus file, or "unix:" and the path of a socket. Throws an environment Error if the
  /// socket cannot listen.
  StatusFile(std::string folder, std::string metrics);
  /// Waits until the files hold the newest texts or their writing has failed, at most for two
  /// seconds each.
  ~StatusFile();

  /// Adds a line about an event at `at`; ignores empty lines.
  void add_line(Nanos at, std::string what);
  /// Returns true if the newest publish_status() is more than a second ago, or more than a tenth of
  /// a second if a line has been added since; also before the first publish_status().
  bool is_due() const;
  /// Returns true if metrics are published: their text is needed.
  bool has_metrics() const { return !metrics_.empty(); }
  /// Publishes the status: the object `fields` with the time and the newest lines, and the text of
  /// the metrics. Does not wait for a file, and ignores files that cannot be written.
  void publish_status(const nlohmann::ordered_json& fields, std::string metrics);
  /// Publishes the last status of the run and waits for its file, at most for two seconds. If a
  /// viewer has looked within the last second, blocks for half a second to give it the time to read
  /// the status.
  void show_last(const nlohmann::ordered_json& fields, std::string metrics);

 private:
  /// Line about an event.
  struct Line {
    std::uint64_t number = 0;
    Nanos at = 0;
    std::string what;
  };
  const std::string folder_, metrics_;
  std::deque<Line> lines_;  ///< newest lines
  std::uint64_t line_count_ = 0, shown_ = 0;
  Clock::time_point shown_at_;
  FileWriter status_writer_, metrics_writer_;
  std::optional<MetricsSocket> socket_;
};

}  // namespace orrery::live
