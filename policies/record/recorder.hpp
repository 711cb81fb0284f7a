// Decorator that writes observations and decisions to a log, which run/replay feeds to the same
// policies.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/arena.h>

#include "core/sha256.hpp"
#include "policies/record/encoding.hpp"
#include "policies/seam/backend.hpp"
#include "policies/seam/byte_archive.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Version of the log format; a log of any other format is refused with its number.
inline constexpr std::uint32_t kLogFormat = 2;

/// Returns the digest of a policy's state in the log: the first 8 bytes of the SHA-256 of its saved
/// state.
std::uint64_t state_digest(const Archive& archive);
std::uint64_t state_digest(const Policy& policy);

/// Returns the path of a log while it is being written.
std::string partial_log(const std::string& path);

/// Hash of all decisions of a run in the order of their ids with their outcomes: equal for two
/// worlds with equal decisions and refusals.
class DecisionTrace {
 public:
  /// Adds a decision on the observation `seen`.
  void add_decision(const Decision& decision, const Observation& seen);
  /// Adds the outcomes in an observation.
  void add_observation(const Observation& seen);
  /// Returns the hash as hex digits. A decision without an outcome counts as open. No calls may
  /// follow.
  std::string finish_trace();
  void save(ByteWriter& write) const;
  void load(ByteReader& read);

 private:
  struct Line {
    std::string text;
    std::optional<Outcome> status;
  };
  void flush(bool all);

  std::map<DecisionId, Line> lines_;  ///< lines from the first one without an outcome on
  Sha256 hash_;
};

/// File of a log: written under a temporary name, renamed when complete, deleted otherwise.
/// Failures throw an environment Error.
class LogFile {
 public:
  virtual ~LogFile() = default;
  /// Truncates the file to its first `bytes` and continues there.
  virtual void begin_at(std::uint64_t bytes) = 0;
  /// Appends bytes.
  virtual void append_bytes(const std::string& bytes) = 0;
  /// Writes buffered bytes to the file.
  virtual void flush() = 0;
  /// Leaves the file to another process.
  virtual void release_file() = 0;
  /// Renames the complete file to its final name.
  virtual void rename_into_place() = 0;
};

/// Returns the file for the log at `path`. An existing file that is not a regular file (/dev/null,
/// a pipe) is written in place.
std::unique_ptr<LogFile> open_log(const std::string& path);

/// Decorator of any backend: writes its observations, the telemetry that was read, and the
/// decisions. finish_log() gives the log its final name, complete or not at all. Throws an
/// environment Error if the log cannot be written.
class Recorder : public Backend {
 public:
  struct Options {
    std::string path = {};  ///< empty: no file is written
    bool hash = true;       ///< compute the hashes, with or without a log
    /// Returns true if the run continues without a log that cannot be written; absent: that is an
    /// error.
    std::function<bool(const std::string& why)> without = {};
    std::function<std::unique_ptr<LogFile>(const std::string& path)> open = open_log;
  };
  /// Constructs a recorder; sets `format`, `offered` and `needs` of the header.
  Recorder(Backend& inner, const Policy& policy, const LogHeader& header, Options options);
  ~Recorder() override;

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override;
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;

  /// Writes everything recorded so far to the file, so that this process may fork.
  void flush();
  /// Leaves the log to another process, a fork or the parent of this one, which continues it and
  /// renames it. Call after flush(); the hashes continue.
  void release_log();
  /// Writes the footer. No calls may follow.
  void finish_log();
  /// Returns all state on which later records and hashes depend, between two calls; everything
  /// recorded so far is in the file then.
  std::string save();
  /// Restores the state within begin(), for the same policies in their state of that time: the log
  /// continues where save() was called.
  void load(std::string_view saved);
  DecisionId decided_before() const override { return inner_.decided_before(); }
  /// Returns the hash of the log, after finish_log(); empty without hashes.
  const std::string& log_sha256() const { return log_sha256_; }
  const std::string& trace_sha256() const { return trace_sha256_; }
  /// Returns the number of calls.
  std::uint64_t calls() const { return calls_; }
  std::uint64_t events() const { return events_; }  ///< events in all observations so far

 private:
  /// Samples that record each read.
  class ReadSamples : public SamplesBook {
   public:
    void follow_source(Samples& source, CallRecord& call) {
      clear();
      source_ = &source;
      call_ = &call;
    }

   private:
    void fetch_samples(const SamplesRead& wish) override;
    CallRecord* call_ = nullptr;
    Samples* source_ = nullptr;
  };
  void write(const LogRecord& record);
  /// Calls `act` with the file. A failure of the file ends the log alone, if the options say so.
  template <class Act>
  void with_file(const Act& act);
  /// Returns the digest of the policy's current state; most calls do not change it.
  std::uint64_t digest();

  Backend& inner_;
  const Policy& policy_;
  LogHeader header_;
  const bool active_;  ///< true if a log or its hash is requested
  const std::function<bool(const std::string&)> without_;
  bool loaded_ = false;  ///< true if an earlier process wrote the header and more
  std::unique_ptr<LogFile> file_;
  std::uint64_t written_ = 0;  ///< bytes written to the file in total
  /// Memory of the current call: the records of many ranks' samples are freed at once.
  google::protobuf::Arena arena_;
  LogRecord* call_ = nullptr;  ///< observation shown, decisions not yet
  ReadSamples samples_;
  std::optional<Observation> seen_;
  struct State {
    Archive digested, newest;
    std::uint64_t digest = 0;
  };
  State state_;  ///< state of the policy
  Sha256 log_hash_;
  DecisionTrace trace_;
  std::string log_sha256_, trace_sha256_;
  std::uint64_t calls_ = 0, events_ = 0;
};

}  // namespace orrery
