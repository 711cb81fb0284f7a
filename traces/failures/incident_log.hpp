// Incidents of an operator's own log: failures with cause, part and the time until the job worked
// again. Reads a CSV of incidents, the output of Slurm's sacct, and Kubernetes events as JSON; the
// contents tell the format. Called by `orrery fit failures`. Thread-safe. Seconds from the begin of
// the log. For example, a job that sacct shows as failed at 10:00 and started again at 10:20 gives
// one incident with a downtime of 1,200 s.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/scenario/failing_part.hpp"

namespace orrery {

/// One incident.
struct Incident {
  double at_s = 0;
  std::string cause = {};
  FailingPart part = FailingPart::job;
  std::optional<std::uint32_t> index = {};  ///< index of the part, if the log names the part
  std::optional<double> rate = {};         ///< share that a slow part kept; absent: the job stopped
  bool stops = false;                      ///< true if a process hung rather than died
  double down_s = 0;                       ///< time from the loss until the job worked again
  std::optional<double> detection_s = {};  ///< part of it until the loss was known
  std::optional<double> repair_s = {};     ///< time from the loss until the part was back
};

/// Log of one job.
struct IncidentLog {
  std::string format = {};  ///< csv, sacct or kubernetes
  double length_s = 0;
  std::uint32_t nodes = 0;                   ///< nodes of the job; 0: not in the log
  std::vector<Incident> incidents = {};      ///< sorted by time
  std::vector<std::string> node_names = {};  ///< name of each index; empty if the log has numbers
  std::vector<std::string> notes = {};       ///< remarks on what was read and left out
};

/// Choices of a reader.
struct IncidentOptions {
  std::string job = {};                 ///< name of the job; empty: the one with the most node time
  std::optional<double> length_s = {};  ///< length of the log, for formats that do not state one
};

/// Returns the incidents of a file, gzip too. Throws bad_input with file:line:column for an unknown
/// format, a missing column, an impossible value, and a log without the job.
IncidentLog load_incidents(const std::string& path, const IncidentOptions& options);
/// Returns the incidents of a text; `path` is for messages. Throws as load_incidents().
IncidentLog parse_incidents(const std::string& path, std::string_view text,
                            const IncidentOptions& options);

}  // namespace orrery
