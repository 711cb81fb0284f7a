// Run of a user's program as ranks of this machine: watches the processes, tells the survivors of a
// loss, keeps the store of their process groups. Used by `orrery run`, directly or under policies
// (live/programs/policies). One thread. The starter of the ranks decides whether they outlive this
// process.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/files/temporary_folder.hpp"
#include "live/programs/final_save.hpp"
#include "live/programs/group_book.hpp"
#include "live/programs/program_settings.hpp"
#include "live/programs/replacements.hpp"
#include "live/programs/run_book.hpp"
#include "live/programs/store_server.hpp"

namespace orrery::live {

/// Result of a run that has ended.
struct ProgramOutcome {
  RunBook book;
  std::string refused;  ///< operation that ended the run; empty: none
  int signal = 0;       ///< signal to the run that ended it; 0: none
  double elapsed_s = 0;
  std::size_t replacements = 0;  ///< processes that were started for lost ranks
  /// Exit code of the run: that of an environment Error if an operation was refused, that of the
  /// lost rank if its loss ended the run, otherwise RunBook::exit_code().
  int exit_code = 0;
  std::vector<GroupKind> groups = {};  ///< process groups of the program
};

/// Receiver of the news of a run. The functions may not call the run, except the const ones.
class ProgramListener {
 public:
  virtual ~ProgramListener() = default;
  /// Receives a message of a rank that is not about its membership: "ready", "done", "snapshot",
  /// "unsaved", "accepted", "late". An exception makes the message one that is reported as none.
  virtual void on_message(std::size_t rank, const Fields& fields) = 0;
  /// Reports the loss of a rank.
  virtual void on_loss(std::size_t rank) = 0;
  /// Reports that a new process has the place of a lost rank, after step `step`.
  virtual void on_joined(std::size_t rank, std::uint64_t step) = 0;
};

/// Processes of one attempt of a run, from their start to the end of the last one. An attached rank
/// that is silent for longer than heartbeat_limit_s is killed and lost. If an operation was
/// refused, or a rank was lost in a run without the fault-tolerant group, the other ranks are
/// ended: SIGTERM, after 1 s SIGKILL.
class ProgramRun {
 public:
  /// Starts nothing. `settings` and `listener`, which may be null, must outlive this object. Throws
  /// an environment Error if the store cannot be opened.
  explicit ProgramRun(const ProgramSettings& settings, ProgramListener* listener = nullptr);

  /// Starts all ranks. Call once. Throws an environment Error if a rank cannot be started, and the
  /// errors of the settings' functions; the destructor then ends the ranks.
  void start();
  /// Takes over the ranks of ProgramSettings::remains, in place of start(). A rank that does not
  /// answer within 10 s is killed and lost. Throws an environment Error if the folder of the run
  /// cannot be used.
  void take_over();
  /// Returns the account for a successor, without the attempt.
  RunRemains remains() const;
  /// Waits for news of the ranks, for at most `wait_ms`, and handles them. Returns false once no
  /// rank runs any more. Throws as start().
  bool advance_run(int wait_ms);
  /// Returns the result; call once, after advance_run() has returned false.
  ProgramOutcome finish_run();

  /// Ends all ranks, as a refused operation does, without naming an operation.
  void end_run();
  /// Lets all ranks save a snapshot between two steps, and then ends them with SIGTERM, as a signal
  /// to the run does. If a rank cannot save, the program goes on, and a line says so.
  void save_and_end() { final_save_.order_save(); }
  /// Returns true while a snapshot of save_and_end() is open, and once the run ends its ranks.
  bool is_saving_or_ending() const { return final_save_.is_ordered() || ends_; }
  /// Kills a rank, which is lost then; does nothing if the rank has ended.
  void kill_rank(std::size_t rank);
  /// Sends a message to a rank, without blocking; does nothing if the rank has ended.
  void send_message(std::size_t rank, const Fields& fields);
  /// Starts a new process for a lost rank as soon as RunBook::can_replace(), up to the limit of the
  /// settings, if ProgramSettings::replaces_by_order.
  void order_replacement(std::size_t rank) { replacements_.order_process(rank); }
  /// Returns the account of the ranks; valid until finish_run().
  const RunBook& run_book() const { return book_; }
  /// Returns the kinds of the program's process groups, in the order of their first groups.
  const std::vector<GroupKind>& groups() const { return groups_.kinds(); }
  /// Returns true if a lost rank may still be replaced: a new process runs, or the limit allows
  /// one.
  bool can_replace() const {
    return replacements_.has_process() || replacements_.started() < settings_.replacements;
  }
  /// Returns the id of the process of a rank.
  pid_t process_id(std::size_t rank) const { return ranks_[rank].pid(); }
  /// Returns the number of processes that were started for lost ranks.
  std::size_t replacements() const { return replacements_.started(); }

 private:
  void wait_for_news(int wait_ms);
  void read_rank(std::size_t rank);
  void handle_message(std::size_t rank, const Fields& fields);
  bool handle_account(std::size_t rank, const Fields& fields);
  void complete_join();
  void ask_to_leave(std::size_t rank, const Fields& fields);
  void confirm_leaver(std::size_t leaver, std::size_t by);
  void forget_in_leavers(std::size_t rank);
  void reap_ranks();
  Reaction record_end(std::size_t rank, const ExitStatus& status);
  void announce_epoch(Reaction reaction, bool is_reset = false);
  void tell_epoch(std::size_t rank);
  void watch_time();
  void end_ranks(int number, double grace_s);
  void refuse_operation(const std::string& operation, const std::vector<std::size_t>& group);

  const ProgramSettings& settings_;
  ProgramListener* const listener_;
  TemporaryFolder folder_;
  double begin_s_;
  RunBook book_;
  GroupBook groups_;
  StoreServer store_;
  std::vector<RankProcess> ranks_;
  Replacements replacements_;
  FinalSave final_save_;
  std::map<std::size_t, std::set<std::size_t>> leavers_;  ///< ranks that each leaver waits for
  std::set<std::size_t> silent_;
  /// operations with which ranks were ended, because their group cannot carry them through a loss
  std::map<std::size_t, std::string> contained_;
  std::string refused_, problem_;
  int signal_ = 0;
  int plain_code_ = 0;  ///< code of the loss that ended a run without fault-tolerant groups
  double kill_at_s_ = 0;
  bool ends_ = false;
};

}  // namespace orrery::live
