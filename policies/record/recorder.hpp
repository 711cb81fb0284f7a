// Recorder of a run: a decorator of the backend that writes observations, telemetry and decisions
// to a log, from which run/replay repeats the calls of the policies. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/arena.h>

#include "core/sha256.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/log_format.hpp"
#include "policies/record/log_hash.hpp"
#include "policies/record/samples_book.hpp"
#include "policies/seam/backend.hpp"
#include "policies/seam/byte_archive.hpp"
#include "traces/trace.pb.h"

namespace orrery {

/// Returns the digest of a policy's state in the log: the first 8 bytes of the SHA-256 of the saved
/// state `archive`.
std::uint64_t state_digest(const Archive& archive);
/// Returns the digest of the current state of a policy.
std::uint64_t state_digest(const Policy& policy);

/// A saved state of more bytes than this is digested only after calls with a decision and now and
/// then: a policy that watches many ranks changes its state at each call, and the digest of all of
/// it would take longer than the policy itself.
inline constexpr std::size_t kLargeState = std::size_t{64} << 10;
/// Returns after how many calls without a decision a state of so many bytes is digested: 1 up to
/// kLargeState, and else at least 64 and so many that a call digests 256 KiB on average.
std::uint64_t calls_between_digests(std::size_t bytes);

/// Returns the temporary path of the log at `path` while the log is being written.
std::string partial_log(const std::string& path);

/// Hash over all decisions of a run and their outcomes, in the order of the ids. A simulated and a
/// live run with equal decisions and outcomes have equal hashes. For example, one line of the
/// hashed text is "Configure{job 0: shares 13 13 1 13, step 12} applied".
class DecisionTrace {
 public:
  /// Adds a decision on the observation `seen`. Its id must be higher than all before. Call after
  /// add_observation() for `seen`.
  void add_decision(const Decision& decision, const Observation& seen);
  /// Adds the outcomes that an observation contains; ignores outcomes of decisions that were not
  /// added.
  void add_observation(const Observation& seen);
  /// Returns the hash as hex digits; a decision without an outcome is hashed as "open". No calls
  /// may follow.
  std::string finish_trace();
  /// Writes the complete state. Call before finish_trace().
  void save(ByteWriter& write) const;
  /// Replaces the state by the state that save() has written. Throws an internal Error for
  /// incomplete bytes, and for an impossible hash state or outcome.
  void load(ByteReader& read);

 private:
  /// Decision as text, with its outcome once known.
  struct Line {
    std::string text;
    std::optional<Outcome> status;
  };
  void flush(bool all);

  std::map<DecisionId, Line> lines_;  ///< lines from the first one without an outcome on
  Sha256 hash_;
};

/// File of a log that is written under a temporary name, renamed when complete, and deleted by the
/// destructor otherwise. Methods throw an environment Error if the file cannot be written.
class LogFile {
 public:
  virtual ~LogFile() = default;
  /// Truncates the file to its first `bytes` bytes and continues at that place; no effect on a file
  /// that is written in place. Throws an environment Error if the file is shorter.
  virtual void begin_at(std::uint64_t bytes) = 0;
  /// Appends bytes, perhaps only to a buffer.
  virtual void append_bytes(const std::string& bytes) = 0;
  /// Writes buffered bytes to the file.
  virtual void flush() = 0;
  /// Closes the file without renaming or deleting it, because another process continues it. No
  /// calls may follow.
  virtual void release_file() = 0;
  /// Flushes, closes and renames the complete file to its final name. No calls may follow. A
  /// failure may leave the temporary file.
  virtual void rename_into_place() = 0;
  /// Returns true if the file is no regular file, such as a pipe, and is written in place: no
  /// process can continue it at a byte.
  virtual bool is_in_place() const { return false; }
};

/// Opens the file for the log at `path`, without truncating it: call begin_at(). An existing file
/// that is not a regular file (/dev/null, a pipe) is written in place. Throws an environment Error
/// if the file cannot be opened.
std::unique_ptr<LogFile> open_log(const std::string& path);

/// Decorator of any backend that records every call of the policies: the observation, the telemetry
/// that was read, the decisions and a digest of the policies' state. Methods throw an environment
/// Error if the log cannot be written and the run may not continue without it.
class Recorder : public Backend {
 public:
  /// Options of a recorder.
  struct Options {
    std::string path = {};  ///< path of the log; empty: no file is written
    bool hash = true;       ///< true: compute the hashes even without a log
    /// decides whether the run continues after the log cannot be written because of `why`; absent:
    /// the run ends with an error
    std::function<bool(const std::string& why)> without = {};
    /// opens the file of the log
    std::function<std::unique_ptr<LogFile>(const std::string& path)> open = open_log;
  };
  /// Constructs a recorder and opens its file. `inner` and `policy`, the policy that drive() calls,
  /// must outlive the recorder. `header`: header of the log; begin() sets its `format`, `offered`
  /// and `needs`. Throws an environment Error if the file cannot be opened, whatever `without`
  /// says.
  Recorder(Backend& inner, const Policy& policy, const LogHeader& header, Options options);
  ~Recorder() override;

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  /// Begins `inner`, then empties the file and writes the header; after load(), which must happen
  /// within the begin() of `inner`, the log continues without a new header.
  void begin(const Needs& needs) override;
  /// Returns the observation of `inner`, whose telemetry is recorded at each first read; nothing at
  /// the end. Without log and hashes, the observation of `inner` itself.
  std::optional<Observation> next() override;
  /// Appends the record of the call, with the digest of the policy's state after the call, to log
  /// and hashes, and then forwards the decisions to `inner`. Call once after each observation of
  /// next().
  void apply(const DecisionList& decisions) override;

  /// Writes all recorded bytes to the file, if any, so that this process may fork.
  void flush();
  /// Leaves the file to another process, a fork or the parent of this process, which continues and
  /// renames it. Call after flush(). Later records go into the hashes only.
  void release_log();
  /// Writes the footer and renames the complete log to its final name; sets the hashes. No effect
  /// without log and hashes. No calls may follow.
  void finish_log();
  /// Returns all state on which later records and hashes depend, and writes all recorded bytes to
  /// the file. Call between two calls of the policies.
  std::string save();
  /// Restores a saved state, so that the log continues where save() was called; without a file if
  /// the recorder had none at save(). Call within begin(), with the same policies in their state at
  /// save(). Throws an internal Error for incomplete bytes; a file that is shorter than at save()
  /// counts as one that cannot be written.
  void load(std::string_view saved);
  DecisionId decided_before() const override { return inner_.decided_before(); }
  /// Returns the hash of the log, valid after finish_log(); empty without hashes.
  const std::string& log_sha256() const { return log_sha256_; }
  /// Returns the hash of the decision trace, valid after finish_log(); empty without hashes.
  const std::string& trace_sha256() const { return trace_sha256_; }
  /// Returns the number of calls of the policies, those before load() included.
  std::uint64_t calls() const { return calls_; }
  std::uint64_t events() const { return events_; }  ///< events in all observations so far
  std::uint64_t notes() const { return notes_; }    ///< annotations of the policies so far

 private:
  /// Telemetry of the inner backend that adds each first read to the record of the call.
  class ReadSamples : public SamplesBook {
   public:
    explicit ReadSamples(LogHash& hash) : hash_(hash) {}
    /// Forgets earlier reads; later reads come from `source`.
    void follow_source(Samples& source) {
      clear();
      columns_.clear();
      bytes_.clear();
      source_ = &source;
    }
    Samples* unrecorded() override { return source_->unrecorded(); }
    /// Returns the reads as they are hashed, in the bytes of fields of CallRecord: columns without
    /// their values.
    const std::string& bytes() const { return bytes_; }
    /// Returns the reads as they are stored, with the values of columns.
    std::string stored_bytes() const;

   private:
    void fetch_samples(const SamplesRead& wish) override;
    std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId job) override;
    std::shared_ptr<const SampleColumn> make_column(SampleField field, JobId job) override;
    LogHash& hash_;
    Samples* source_ = nullptr;
    std::string bytes_;
    /// Column that was read, with the place of its read in `bytes_`.
    struct Column {
      std::size_t begin = 0, end = 0;
      SampleField field{};
      JobId job;
      std::shared_ptr<const SampleColumn> values;
    };
    std::vector<Column> columns_;
    /// Rows that were read last, with the bytes of their read: most calls read the rows of the call
    /// before.
    struct KnownRows {
      std::shared_ptr<const SampleRows> rows;
      std::string bytes;
    };
    std::map<std::pair<SampleTable, JobId>, KnownRows> known_rows_;
  };
  /// Appends a record that is no call to hash and file.
  void write(const LogRecord& record);
  /// Appends the record of the current call to hash and file.
  void write_call();
  void append_to_file(std::initializer_list<std::string_view> parts);
  /// Calls `act` with the file, if the recorder has a file. After a failure the file is closed if
  /// the options let the run continue without a log; otherwise the error is thrown.
  template <class Act>
  void with_file(const Act& act);
  /// Returns the digest of the policy's current state; computes it only if the state has changed.
  /// 0: the state is large and not digested after this call. `decided`: the policy has decided.
  std::uint64_t digest(bool decided);

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
  struct {
    CallRecord* shown = nullptr;  ///< the observation alone
    CallRecord* rest = nullptr;   ///< all other fields but the reads
  } call_;                        ///< parts of the record of the current call, in `arena_`
  LogHash log_hash_;
  ReadSamples samples_{log_hash_};
  std::optional<Observation> seen_;
  struct State {
    Archive digested, newest;  ///< `digested` is empty above kLargeState
    std::uint64_t every = 1;   ///< calls_between_digests() of the digested state
    std::uint64_t digest = 0;
    bool behind = false;  ///< true if the state has changed since it was digested
  };
  State state_;  ///< state of the policy
  DecisionTrace trace_;
  std::string log_sha256_, trace_sha256_;
  std::uint64_t calls_ = 0, events_ = 0, notes_ = 0;
};

}  // namespace orrery
