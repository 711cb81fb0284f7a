// Write-ahead log of one live run: the state that a successor of the run's controller needs. The
// controller appends a record before it acts on the record's content, and waits for this append
// alone, at most for kAppendDeadline. Once the file has grown by the configured tail, a second
// thread replaces the file atomically by a snapshot of the run, so that neither its size nor the
// time to read it grows with the run. Each record carries checksums. A record torn by the
// controller's death is cut off; any other damage is refused. The file survives the death of
// processes, not of the machine: no write is synced. The methods belong to one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "live/run/files/file_writer.hpp"
#include "live/run/files/journal_files.hpp"
#include "live/run/files/run_state.hpp"
#include "live/supervision.pb.h"

namespace orrery::live {

/// Version of the journal's format.
inline constexpr std::uint32_t kJournalFormat = 5;

/// Returns a record as stored in the file: its length, its checksums, its bytes.
std::string framed(const std::string& record);

/// Longest time for which the controller waits for the append of a record. A disk that takes longer
/// costs the run its takeover, not its steps.
inline constexpr std::chrono::milliseconds kAppendDeadline{2000};

/// Write-ahead log of one live run. Owns the file, the thread of the appends and the thread of the
/// rewrites.
class Journal {
 public:
  /// Default tail, in bytes, after which the file is rewritten.
  static constexpr std::size_t kDefaultTail = std::size_t{2} << 20;
  /// Largest size in bytes. A journal that reaches this size because it could not be rewritten is
  /// abandoned.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;

  /// Opens the journal of a run, or creates it; cuts off a torn last record. `tail`: bytes after
  /// the snapshot after which the next rewrite is due. `calls`: operations of the disk. `rules`: of
  /// the run's scenario, for apply(). Throws an environment Error if the file cannot be opened, is
  /// damaged, has another format (kJournalFormat), or belongs to another run. A new journal whose
  /// first record cannot be written is abandoned; on_failure() then calls its handler at once.
  Journal(const std::string& path, const std::string& scenario_hash,
          std::size_t tail = kDefaultTail, FileCalls calls = {}, const RunRules& rules = {});
  /// Waits for a rewrite, at most for kAppendDeadline.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Returns the contents of the journal when it was opened; later records do not change them.
  const Past& past() const { return past_; }
  /// Returns the state of the run: the state at the opening, changed by apply() with each record of
  /// append_record(). Records change the state even if the journal is abandoned or discarded.
  const RunState& state() const { return state_; }
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
  /// written within kAppendDeadline or the file would exceed kMostBytes.
  bool append_record(const JournalRecord& record);

  /// Returns true if the file has grown since its snapshot by the tail and by at least the
  /// snapshot's own size, so that it should be rewritten; false during a rewrite, and if the
  /// journal is abandoned or discarded.
  bool is_due();
  /// Begins to replace the file by one that begins with the snapshot `state`, and returns at once.
  /// The file is replaced once `may_replace`, which another thread calls, returns true: the log
  /// must hold what the snapshot expects. Keeps the current file if the new file cannot be written;
  /// is_due() is then false until the file has grown by as much again. Call only while is_due()
  /// holds. past() does not change.
  void begin_anew(
      JournalSnapshot state, std::function<bool()> may_replace = [] { return true; });
  /// Blocks until no rewrite is pending. Returns false if `patience` has passed before.
  bool wait_for_rewrite(std::chrono::milliseconds patience);
  /// Deletes the file: no successor will continue the run. No further record is written,
  /// append_record() returns false, and the handler of an abandoned journal is not called. No
  /// effect on an abandoned or discarded journal.
  void discard_file();

 private:
  /// Opens the file, reads its contents and cuts off a torn last record.
  std::shared_ptr<OpenFile> open_file();
  /// Reads all records of `bytes` into the contents.
  void read(const std::string& bytes);
  /// Throws an environment Error about the file at byte `at`.
  [[noreturn]] void refuse_file(const std::string& why, std::size_t at) const;
  /// Returns the first record of every journal: format and hash of the scenario.
  JournalRecord opening() const;
  /// Appends bytes to the files. Returns the reason why they cannot be written in time; nothing if
  /// they were written.
  std::optional<std::string> append_bytes(std::string bytes);
  /// Applies the outcome of a rewrite that has ended to the sizes.
  void finish_rewrite();
  /// Closes and deletes the file, and calls the handler.
  void abandon_file(const std::string& why);

  const std::string path_, scenario_hash_;
  const std::size_t tail_;
  const RunRules rules_;
  std::function<void(const std::string&)> decide_;
  std::string abandoned_;         ///< Reason of an abandoned journal.
  std::size_t whole_ = 0;         ///< Bytes of complete records.
  std::size_t snapshot_end_ = 0;  ///< Bytes before the tail.
  /// Size of the file before the records since the begin of a rewrite, and its size afterwards.
  std::size_t rewritten_ = 0, rewritten_to_ = 0;
  bool is_rewriting_ = false;
  /// Bytes of a torn record.
  std::size_t cut_off_ = 0;
  Past past_;
  RunState state_;
  std::shared_ptr<JournalFiles> files_;  ///< Files; null once abandoned or discarded.
  FileWriter appends_{kAppendDeadline}, rewrites_{kAppendDeadline};
};

}  // namespace orrery::live
