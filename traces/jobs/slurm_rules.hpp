// Rules of a Slurm as its own tools print them: reservations (`scontrol show reservation`) and
// qualities of service (`sacctmgr show qos -P`). Called by `orrery jobs --reservations` and
// `--qos`. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Reservation of nodes.
struct SlurmReservation {
  std::string name;
  std::int64_t begin_s = 0, end_s = 0;  ///< seconds since 1970, at least 1 s long
  std::vector<std::string> nodes;       ///< names; never empty
  std::vector<std::string> users = {}, accounts = {};
};

/// Quality of service.
struct SlurmQos {
  std::string name;
  double priority = 0;
  std::optional<std::uint32_t> gpus = {};           ///< GrpTRES: of all jobs at a time
  std::optional<std::uint32_t> gpus_per_user = {};  ///< MaxTRESPU: of one user at a time
  std::vector<std::string> preempts = {};           ///< Preempt
};

/// Returns the reservations of the output of `scontrol show reservation`, with or without -o, in
/// the order of the text; those without nodes (of licenses) are left out. Times without an offset
/// are UTC. Throws bad_input with the line for a text without ReservationName=, a time that is
/// none, a list of hosts that is none, an end that is not after the begin, and users that are
/// excluded (-ann).
///
/// For example, "ReservationName=m StartTime=2024-01-10T08:00:00 EndTime=2024-01-10T16:00:00
/// Nodes=gpu[1-2] Users=ann".
std::vector<SlurmReservation> parse_slurm_reservations(const std::string& path,
                                                       std::string_view text);

/// Returns the QOS of the output of `sacctmgr show qos -P` (or -p), whose header names the columns:
/// Name, and optionally Priority, GrpTRES, MaxTRESPU and Preempt. A limit without gres/gpu is no
/// limit. Throws bad_input with the place for a text without a column Name, a row with more or
/// fewer fields, and a number that is none.
std::vector<SlurmQos> parse_slurm_qos(const std::string& path, std::string_view text);

}  // namespace orrery
