// Write-ahead log of one live run: the state that a successor of the run's controller needs. The
// controller appends a record before it acts on the record's content. Once the file has grown by
// the configured tail, the file is replaced atomically by a snapshot of the run, so that neither
// its size nor the time to read it grows with the run. Each record carries checksums. A record torn
// by the controller's death is cut off; any other damage is refused. The file survives the death of
// processes, not of the machine: no write is synced. Single-threaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/supervision.pb.h"
#include "policies/membership/protocol.hpp"

namespace orrery::live {

/// Contents of a journal at the time it was opened.
struct Past {
  bool empty = true;  ///< True if the journal holds no record except the opening.
  /// Snapshot with which the file begins, if the file was rewritten. Its control core state,
  /// losses, faults and members are in the fields below, too; observations and commits before the
  /// snapshot are in none.
  std::optional<JournalSnapshot> snapshot;
  membership::Journal core;
  std::set<membership::Seat> joined;  ///< Members of any membership epoch.
  /// Start of the policy clock, in nanoseconds of the machine's clock; none if the run has not
  /// started.
  std::optional<Nanos> started;
  /// Observations shown to the policies since the start or since the snapshot, oldest first.
  std::vector<ObservationRecord> seen;
  /// Telemetry that the policies read, by index in `seen`.
  std::map<std::size_t, JournalRead> read;
  /// Checkpoint from which the run resumed; none if the run began with step 0.
  std::optional<Resumption> resumed;
  /// State that the next ranks begin with, after a release of the job's GPUs; none once a step has
  /// been committed in that state. Its step is the next one.
  std::optional<Resumption> rolled_back;
  /// Commits of all steps since the start or since the snapshot; repeated steps have several.
  std::vector<JournalCommit> commits;
  std::vector<JournalLoss> losses;  ///< Losses of ranks, by index.
  /// Faults injected so far.
  std::vector<JournalStrike> strikes;
  /// Removals that the operator has announced, in the order of the announcements.
  std::vector<Fault> removals;
  /// Reason for which the policies were given up, by index in `seen` of the observation of the
  /// call.
  std::map<std::size_t, std::string> given_up;
  /// State of the kill switch, from the given number of shown observations on.
  std::map<std::size_t, bool> halted;
  /// Hash of the final parameters; empty before the end.
  std::string parameters_sha256;
};

/// Version of the journal's format.
inline constexpr std::uint32_t kJournalFormat = 4;

/// Returns a record as stored in the file: its length, its checksums, its bytes.
std::string framed(const std::string& record);

/// Write-ahead log of one live run. Owns the file descriptor.
class Journal {
 public:
  /// Default tail, in bytes, after which the file is rewritten.
  static constexpr std::size_t kDefaultTail = std::size_t{2} << 20;
  /// Largest size in bytes. A journal that reaches this size because it could not be rewritten is
  /// abandoned.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;

  /// Opens the journal of a run, or creates it; cuts off a torn last record. `tail`: bytes after
  /// the snapshot after which the next rewrite is due. Throws an environment Error if the file
  /// cannot be opened, is damaged, has another format (kJournalFormat), or belongs to another run.
  /// A new journal whose first record cannot be written is abandoned; on_failure() then calls its
  /// handler at once.
  Journal(const std::string& path, const std::string& scenario_hash,
          std::size_t tail = kDefaultTail);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Returns the contents of the journal when it was opened; later records do not change them.
  const Past& past() const { return past_; }
  /// Returns the number of bytes of a torn record that were cut off at the opening; 0 if none was
  /// torn.
  std::size_t cut_off() const { return cut_off_; }
  /// Returns the size of the file's complete records in bytes; the last size once the journal is
  /// abandoned or discarded.
  std::size_t size() const { return whole_; }

  /// Sets the handler of an abandoned journal; replaces an earlier one. The handler is called once,
  /// within append_record(), before the file is deleted, or within this call if the journal is
  /// abandoned already: no further record is written; the run can continue, but ends with the death
  /// of its controller.
  void on_failure(std::function<void(const std::string& why)> decide) {
    decide_ = std::move(decide);
    if (!abandoned_.empty()) decide_(abandoned_);
  }
  /// Appends a record and returns true; does not sync. Returns false if the journal is abandoned or
  /// discarded. Abandons the journal, calls the handler and returns false if the record cannot be
  /// written or the file would exceed kMostBytes.
  bool append_record(const JournalRecord& record);

  /// Returns true if the file has grown since its snapshot by the tail and by at least the
  /// snapshot's own size, so that it should be rewritten; false if the journal is abandoned or
  /// discarded.
  bool is_due() const {
    return file_ >= 0 && whole_ >= snapshot_end_ + std::max(tail_, snapshot_end_);
  }
  /// Replaces the file by one that begins with the snapshot `state`. Keeps the current file if the
  /// new file cannot be written; is_due() is then false until the file has grown by as much again.
  /// Call only while is_due() holds. past() does not change.
  void begin_anew(const JournalSnapshot& state);
  /// Deletes the file: no successor will continue the run. No further record is written,
  /// append_record() returns false, and the handler of an abandoned journal is not called. No
  /// effect on an abandoned or discarded journal.
  void discard_file();

 private:
  /// Reads all records of `bytes` into the contents.
  void read(const std::string& bytes, const std::string& scenario_hash);
  /// Adds a record to the contents. `at`: position of the record in the file, in bytes.
  void add_to_contents(const JournalRecord& record, std::size_t at);
  /// Adds or replaces a loss in the contents.
  void add_to_contents(const JournalLoss& loss, std::size_t at);
  /// Sets the contents to a snapshot.
  void add_to_contents(const JournalSnapshot& state);
  /// Throws an environment Error about the file at byte `at`.
  [[noreturn]] void refuse_file(const std::string& why, std::size_t at) const;
  /// Returns the first record of every journal: format and hash of the scenario.
  JournalRecord opening() const;
  /// Closes and deletes the file, and calls the handler.
  void abandon_file(const std::string& why);

  const std::string path_, scenario_hash_;
  const std::size_t tail_;
  std::function<void(const std::string&)> decide_;
  std::string abandoned_;  ///< Reason of an abandoned journal.
  int file_ = -1;
  std::size_t whole_ = 0;         ///< Bytes of complete records.
  std::size_t snapshot_end_ = 0;  ///< Bytes before the tail.
  /// Bytes of a torn record.
  std::size_t cut_off_ = 0;
  Past past_;
};

}  // namespace orrery::live
