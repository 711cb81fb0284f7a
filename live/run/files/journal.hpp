// What a controller has to remember beyond its death: a file in the run's folder to which it
// appends before anything follows from what it says. Once it has grown by so much it is begun anew
// with the state of the run, written beside it and put in its place, so that its size, and the time
// in which another controller reads it, do not grow with the run. Each record carries checksums;
// one that was being written when the controller died is cut off, anything else that is not as it
// was written is refused. It outlives processes, not the machine: nothing is synced. One thread.
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

/// What a journal tells.
struct Past {
  bool empty = true;  ///< nothing but, perhaps, its opening
  /// The run as it stood when the journal was begun anew; what it tells of control core, losses,
  /// strikes and members is in the lists below, too.
  std::optional<JournalSnapshot> snapshot;
  membership::Journal core;
  std::set<membership::Seat> joined;  ///< members of any epoch
  std::optional<Nanos> started;
  std::vector<ObservationRecord> seen;
  std::map<std::size_t, JournalRead> read;  ///< with that observation
  std::optional<Resumption> resumed;   ///< none: the run began with step 0
  std::vector<JournalCommit> commits;  ///< of all steps from the first, or the snapshot's, on
  std::vector<JournalLoss> losses;     ///< by index
  std::vector<JournalStrike> strikes;
  std::map<std::size_t, bool> halted;  ///< from that call on
  std::string parameters_sha256;
};

inline constexpr std::uint32_t kJournalFormat = 2;

/// A record as it stands in the file, with its checksums.
std::string framed(const std::string& record);

class Journal {
 public:
  static constexpr std::size_t kDefaultTail = std::size_t{2} << 20;
  /// However it is put, a journal that cannot be begun anew is given up at so many bytes.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;

  /// Opens the journal of a run, or begins it. `tail`: bytes behind the snapshot after which the
  /// next one is due. Throws an environment Error if it cannot be read, is damaged, or is another
  /// run's.
  Journal(const std::string& path, const std::string& scenario_hash,
          std::size_t tail = kDefaultTail);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// What stood in it when it was opened.
  const Past& past() const { return past_; }
  /// Bytes of a torn record that were cut off.
  std::size_t cut_off() const { return cut_off_; }
  std::size_t size() const { return whole_; }

  /// Called once, within append(), when the journal is given up: nothing more is written, and the
  /// run can go on, but not beyond the death of its controller.
  void on_failure(std::function<void(const std::string& why)> decide) {
    decide_ = std::move(decide);
  }
  /// False if it is given up.
  bool append(const JournalRecord& record);

  /// It has grown enough to be begun anew.
  bool due() const {
    return file_ >= 0 && whole_ >= snapshot_end_ + std::max(tail_, snapshot_end_);
  }
  /// Begins anew with that state. Where that cannot be written it stays as it is.
  void begin_anew(const JournalSnapshot& state);
  /// Nobody will go on from it: nothing more is written, and nobody is told.
  void stop();

 private:
  void read(const std::string& bytes, const std::string& scenario_hash);
  void take(const JournalRecord& record, std::size_t at);
  void take(const JournalLoss& loss, std::size_t at);
  void take(const JournalSnapshot& state);
  [[noreturn]] void refuse(const std::string& why, std::size_t at) const;
  JournalRecord opening() const;
  void give_up(const std::string& why);

  const std::string path_, scenario_hash_;
  const std::size_t tail_;
  std::function<void(const std::string&)> decide_;
  int file_ = -1;
  std::size_t whole_ = 0;         ///< bytes of whole records
  std::size_t snapshot_end_ = 0;  ///< those before the tail
  std::size_t cut_off_ = 0;
  Past past_;
};

}  // namespace orrery::live
