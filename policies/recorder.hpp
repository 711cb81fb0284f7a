// A decorator that writes what a backend showed and what was decided, and the replay of such a
// log through the same policies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/sha256.hpp"
#include "policies/backend.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Older formats are refused by number.
inline constexpr std::uint32_t kLogFormat = 1;

/// What a log keeps of a policy's state: the first 8 bytes of the SHA-256 of what it saves.
std::uint64_t state_digest(const Policy& policy);

/// Where a log stands until it is whole.
std::string partial_log(const std::string& path);

/// Wraps any backend. With an empty path nothing is written but the hashes are still made. The
/// log is written beside `path` and put there by finish(), whole or not at all. Throws an
/// environment Error when it cannot be written. `format`, `signals` and `actions`
/// of the header are filled in.
class Recorder : public Backend {
 public:
  Recorder(Backend& inner, const Policy& policy, const LogHeader& header, const std::string& path);
  ~Recorder() override;

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override { inner_.begin(needs); }
  std::optional<Observation> next() override;
  void apply(std::span<const Decision> decisions, bool at_rest) override;

  /// Writes the footer; no calls afterwards.
  void finish();
  std::string log_sha256() const;    ///< decision_log_sha256
  std::string trace_sha256() const;  ///< decision_trace_sha256
  std::uint64_t calls() const { return calls_; }
  std::uint64_t events() const { return events_; }  ///< in all observations so far

 private:
  std::string write(const LogRecord& record);  ///< returns the bytes without their length

  Backend& inner_;
  const Policy& policy_;
  struct File;
  std::unique_ptr<File> file_;
  LogRecord call_;  ///< the call under way: observation seen, decisions not yet
  Sha256 log_hash_, trace_hash_;
  std::uint64_t calls_ = 0, events_ = 0;
};

struct ReplayResult {
  std::uint64_t calls = 0;
  std::uint64_t decisions = 0;
  std::string decision_trace_sha256;
  std::string first_difference;  ///< empty: identical
};

/// Feeds the log's observations, through drive(), to the policies named in its header (with
/// `overrides`, such as "predictive-rebalance.gain_threshold=0.2", applied to their parameters).
/// Stops at the first difference: another decision, another state of the policies after a call, or
/// (at the end) other bytes than were recorded.
/// Throws bad_input on a file that is no log, is cut short, or has another format.
ReplayResult replay_log(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace orrery
