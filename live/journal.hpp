// What a controller has to remember beyond its death: a file in the run's folder to which it
// appends before anything follows from what it says. Each record carries checksums; one that was
// being written when the controller died is cut off, anything else that is not as it was written
// is refused. It outlives processes, not the machine: nothing is synced. One thread.
#pragma once

#include <cstdint>
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
  membership::Journal core;
  std::set<membership::Seat> joined;  ///< members of any epoch
  std::optional<Nanos> started;
  std::vector<ObservationRecord> seen;
  std::map<std::size_t, JournalRead> read;  ///< with that observation
  std::optional<Resumption> resumed;   ///< none: the run began with step 0
  std::vector<JournalCommit> commits;  ///< of all steps from the first on
  std::vector<JournalLoss> losses;     ///< by index
  std::vector<JournalStrike> strikes;
  std::map<std::size_t, bool> halted;  ///< from that call on
  std::string parameters_sha256;
};

class Journal {
 public:
  /// Opens the journal of a run, or begins it. Throws an environment Error if it cannot be read,
  /// is damaged, or is another run's.
  Journal(const std::string& path, const std::string& scenario_hash);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// What stood in it when it was opened.
  const Past& past() const { return past_; }
  /// Bytes of a torn record that were cut off.
  std::size_t cut_off() const { return cut_off_; }
  /// False, and nothing more is written, if that was not possible (a full disk): the run can go on,
  /// but not beyond the death of its controller.
  bool append(const JournalRecord& record);

 private:
  void read(const std::string& bytes, const std::string& scenario_hash);
  void take(const JournalRecord& record, std::size_t at);
  void take(const JournalLoss& loss, std::size_t at);
  [[noreturn]] void refuse(const std::string& why, std::size_t at) const;

  const std::string path_;
  int file_ = -1;
  std::size_t whole_ = 0;  ///< bytes of whole records
  std::size_t cut_off_ = 0;
  Past past_;
};

}  // namespace orrery::live
