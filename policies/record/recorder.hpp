// A decorator that writes what a backend showed and what was decided: run/replay feeds such a log
// to the same policies.
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

/// Logs of any other format are refused by number.
inline constexpr std::uint32_t kLogFormat = 2;

/// What a log keeps of a policy's state: the first 8 bytes of the SHA-256 of what it saves.
std::uint64_t state_digest(const Archive& archive);
std::uint64_t state_digest(const Policy& policy);

/// Where a log stands until it is whole.
std::string partial_log(const std::string& path);

/// The decisions of a run in the order of their ids with what became of them, as one hash: equal in
/// two worlds that decided and refused alike.
class DecisionTrace {
 public:
  void decided(const Decision& decision, const Observation& seen);
  void see(const Observation& seen);
  /// What has no outcome yet counts as open. No calls afterwards.
  std::string finish();
  void save(ByteWriter& write) const;
  void load(ByteReader& read);

 private:
  struct Line {
    std::string text;
    std::optional<Outcome> status;
  };
  void flush(bool all);

  std::map<DecisionId, Line> lines_;  ///< from the first one without an outcome on
  Sha256 hash_;
};

/// Where a log is written: beside its place, and put there when it is whole; removed if never.
/// What cannot be done throws an environment Error.
class LogFile {
 public:
  virtual ~LogFile() = default;
  /// What stands behind the first `bytes` goes.
  virtual void begin_at(std::uint64_t bytes) = 0;
  virtual void append(const std::string& bytes) = 0;
  virtual void flush() = 0;
  /// The file is another process's.
  virtual void leave() = 0;
  virtual void put_in_place() = 0;
};

/// What is there and is no regular file (/dev/null, a pipe) is written to as it stands.
std::unique_ptr<LogFile> open_log(const std::string& path);

/// Wraps any backend: writes what it showed, what of its telemetry was read and what was decided.
/// The log is written beside its path and put there by finish(), whole or not at all. Throws an
/// environment Error when it cannot be written.
class Recorder : public Backend {
 public:
  struct Options {
    std::string path = {};  ///< empty: nothing is written
    bool hash = true;       ///< the hashes are made, with a log or without
    /// Says whether to go on without a log that cannot be written; absent: that is an error.
    std::function<bool(const std::string& why)> without = {};
    std::function<std::unique_ptr<LogFile>(const std::string& path)> open = open_log;
  };
  /// `format`, `offered` and `needs` of the header are filled in.
  Recorder(Backend& inner, const Policy& policy, const LogHeader& header, Options options);
  ~Recorder() override;

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override;
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;

  /// What has been recorded is in the file: this process may fork.
  void flush();
  /// Another process, of which this one is a fork or that is one of this, writes the log from now
  /// on and puts it in place. After flush(); the hashes go on.
  void leave_log();
  /// Writes the footer; no calls afterwards.
  void finish();
  /// All that later records and hashes depend on, between two calls; what has been recorded is in
  /// the file then.
  std::string save();
  /// Within begin(), of the same policies in the state of then: goes on where save() was called.
  void load(std::string_view saved);
  DecisionId decided_before() const override { return inner_.decided_before(); }
  /// After finish(); empty without hashes.
  const std::string& log_sha256() const { return log_sha256_; }
  const std::string& trace_sha256() const { return trace_sha256_; }
  std::uint64_t calls() const { return calls_; }
  std::uint64_t events() const { return events_; }  ///< in all observations so far

 private:
  /// Notes what is read.
  class ReadSamples : public SamplesBook {
   public:
    void follow(Samples& source, CallRecord& call) {
      clear();
      source_ = &source;
      call_ = &call;
    }

   private:
    void fetch(const SamplesRead& wish) override;
    CallRecord* call_ = nullptr;
    Samples* source_ = nullptr;
  };
  void write(const LogRecord& record);
  /// What the file throws ends the log alone, where that is wanted.
  template <class Act>
  void with_file(const Act& act);
  /// Of the policy's state now; most calls leave it as it was.
  std::uint64_t digest();

  Backend& inner_;
  const Policy& policy_;
  LogHeader header_;
  const bool active_;  ///< somebody wants a log or its hash
  const std::function<bool(const std::string&)> without_;
  bool loaded_ = false;  ///< the header and more was written before
  std::unique_ptr<LogFile> file_;
  std::uint64_t written_ = 0;  ///< to the file, in all
  /// Of the call under way: what many ranks' samples are written as is let go at once.
  google::protobuf::Arena arena_;
  LogRecord* call_ = nullptr;  ///< observation seen, decisions not yet
  ReadSamples samples_;
  std::optional<Observation> seen_;
  struct State {
    Archive digested, newest;
    std::uint64_t digest = 0;
  };
  State state_;  ///< the policy's
  Sha256 log_hash_;
  DecisionTrace trace_;
  std::string log_sha256_, trace_sha256_;
  std::uint64_t calls_ = 0, events_ = 0;
};

}  // namespace orrery
