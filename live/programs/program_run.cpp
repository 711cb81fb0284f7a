#include "live/programs/program_run.hpp"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "live/group/messages.hpp"

namespace orrery::live {
namespace {

constexpr double kTermGrace_s =
    1;  ///< grace between SIGTERM and SIGKILL when the run ends the ranks
constexpr double kSignalGrace_s = 10;  ///< grace after a signal to the run
constexpr double kAnswer_s = 10;       ///< longest wait for the ranks of a run that is taken over
constexpr int kRefused = static_cast<int>(ErrorKind::environment);

}  // namespace

ProgramRun::ProgramRun(const ProgramSettings& settings, ProgramListener* listener)
    : settings_(settings),
      listener_(listener),
      folder_(settings.remains ? TemporaryFolder(settings.remains->folder, TemporaryFolder::Taken())
                               : TemporaryFolder("orrery-run")),
      begin_s_(monotonic_s()),
      book_(settings.ranks, settings.heartbeat_limit_s, begin_s_),
      store_(folder_.path_of("store")),
      replacements_(settings_, book_, store_.path(), folder_.path_of("state"),
                    [this](std::size_t rank, const Fields& fields) { send_message(rank, fields); }),
      final_save_([this](std::size_t rank, const Fields& fields) { send_message(rank, fields); }) {}

void ProgramRun::start() {
  folder_.share_lock();
  for (std::size_t rank = 0; rank < settings_.ranks; ++rank) {
    ranks_.push_back(start_rank(settings_.start, {rank, store_.path()}));
  }
}

void ProgramRun::take_over() {
  const RunRemains& remains = *settings_.remains;
  begin_s_ = remains.begin_s;
  auto answered = call_ranks(remains.folder, remains.processes, kAnswer_s);
  RunAccount account = remains.account;
  bool is_new = false;
  for (const auto& [rank, known] : answered) {
    const std::uint64_t newest = account.epoch.number;
    is_new = is_new || known.epoch.number != answered.begin()->second.epoch.number;
    if (known.epoch.number >= newest) account.epoch = known.epoch;
  }
  book_.take_over(account);
  for (std::size_t rank = 0; rank < settings_.ranks; ++rank) {
    const auto found = answered.find(rank);
    const bool is_here = found != answered.end();
    ranks_.push_back(is_here ? std::move(found->second.process) : ended_rank(remains.folder, rank));
    if (is_here) book_.record_taken(rank, found->second.steps, monotonic_s());
  }
  for (std::size_t rank = 0; rank < settings_.ranks; ++rank) {
    if (book_.has_ended(rank)) continue;
    if (const auto status = ranks_[rank].exit_status(); status && answered.count(rank) == 0) {
      is_new = record_end(rank, *status) == Reaction::new_epoch || is_new;
    }
  }
  settings_.print_line(fmt::format("{} of {} ranks go on from step {}", book_.members().size(),
                                   settings_.ranks, book_.steps()));
  if (is_new) return announce_epoch(Reaction::new_epoch);
  for (const std::size_t rank : book_.attached_members(settings_.ranks)) tell_epoch(rank);
}

RunRemains ProgramRun::remains() const {
  RunRemains remains{.folder = folder_.path_of(""),
                     .begin_s = begin_s_,
                     .replacements = replacements_.started(),
                     .processes = {},
                     .account = book_.run_account()};
  remains.folder.pop_back();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    remains.processes.push_back(book_.has_ended(rank) ? 0 : ranks_[rank].pid());
  }
  const std::size_t living = book_.members().size();
  remains.is_attached = book_.attached_members(settings_.ranks).size() == living;
  return remains;
}

bool ProgramRun::advance_run(int wait_ms) {
  if (book_.running() == 0) return false;
  folder_.claim_lock();
  wait_for_news(wait_ms);
  reap_ranks();
  replacements_.watch_process(monotonic_s(), is_saving_or_ending());
  watch_time();
  return book_.running() > 0;
}

ProgramOutcome ProgramRun::finish_run() {
  replacements_.kill_process();
  int code = plain_code_ != 0 ? plain_code_ : book_.exit_code();
  if (!refused_.empty()) code = kRefused;
  return {std::move(book_),        refused_, signal_,        monotonic_s() - begin_s_,
          replacements_.started(), code,     groups_.kinds()};
}

void ProgramRun::end_run() { end_ranks(SIGTERM, kTermGrace_s); }

void ProgramRun::kill_rank(std::size_t rank) {
  if (!book_.has_ended(rank)) ranks_[rank].signal(SIGKILL);
}

void ProgramRun::send_message(std::size_t rank, const Fields& fields) {
  if (!book_.has_ended(rank)) send_frame(ranks_[rank].channel(), fields);
}

/// Blocks until a message or the end of a process, and handles messages.
void ProgramRun::wait_for_news(int wait_ms) {
  std::vector<pollfd> waiting;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!book_.has_ended(rank)) add_waiting(waiting, ranks_[rank]);
  }
  replacements_.add_waiting(waiting);
  store_.add_waiting(waiting);
  poll(waiting.data(), waiting.size(), wait_ms);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!book_.has_ended(rank) && ranks_[rank].is_open) read_rank(rank);
  }
  if (replacements_.read_messages(monotonic_s())) complete_join();
  store_.serve_requests(monotonic_s());
}

void ProgramRun::read_rank(std::size_t rank) {
  const std::string problem = read_messages(
      ranks_[rank], [this, rank](const Fields& fields) { handle_message(rank, fields); });
  if (!problem.empty()) {
    settings_.print_line(fmt::format("rank {} sent a message that is none: {}", rank, problem));
  }
}

/// Handles a message that only the account of the ranks is about. Returns false for others.
bool ProgramRun::handle_account(std::size_t rank, const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  if (kind == MessageKind::step) {
    book_.record_step(rank, std::stoull(fields.at(1)), std::stod(fields.at(2)),
                      std::stod(fields.at(3)));
    book_.record_sent_bytes(rank, std::stod(fields.at(4)));
  } else if (kind == MessageKind::settled) {
    book_.record_settled(rank, std::stoull(fields.at(1)));
  } else if (kind == MessageKind::problem) {
    book_.record_problem(std::stoull(fields.at(1)), monotonic_s());
    problem_ = fields.at(2);
  } else if (kind == MessageKind::dealt) {
    book_.record_dealt(rank, std::stoull(fields.at(1)));
  } else if (kind == MessageKind::resumed) {
    book_.record_resumed(std::stoull(fields.at(1)));
  } else if (kind == MessageKind::group || kind == MessageKind::sharded) {
    const std::string line = groups_.record_message(fields);
    if (!settings_.announces_groups || line.empty()) return true;
    settings_.print_line(line);
    const std::string tier = groups_.drain_tier_line(settings_.ranks, settings_.has_restarts);
    if (!tier.empty()) settings_.print_line(tier);
  } else {
    return kind == MessageKind::beat;
  }
  return true;
}

void ProgramRun::handle_message(std::size_t rank, const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  book_.record_beat(rank, monotonic_s());
  if (handle_account(rank, fields)) return;
  if (kind == MessageKind::hello) {
    book_.record_hello(rank, monotonic_s());
    book_.record_start(rank, ranks_[rank].is_warm, monotonic_s() - ranks_[rank].started_s);
    tell_epoch(rank);
  } else if (kind == MessageKind::plain) {
    if (book_.plain_reason().empty()) {
      settings_.print_line(fmt::format("not attached: {}; a lost rank ends the run", fields.at(1)));
    }
    book_.record_plain(rank, fields.at(1));
  } else if (kind == MessageKind::leave) {
    ask_to_leave(rank, fields);
  } else if (kind == MessageKind::confirmed) {
    confirm_leaver(static_cast<std::size_t>(std::stoull(fields.at(1))), rank);
  } else if (kind == MessageKind::refuse) {
    refuse_operation(fields.at(1), numbers_in(fields.at(2)));
  } else if (kind == MessageKind::state) {
    replacements_.record_state(find_named<StateShare>(fields.at(1)) == StateShare::whole);
    book_.record_snapshot_folder(fields.at(2));
  } else {
    if (kind == MessageKind::snapshot) book_.record_snapshot(std::stoull(fields.at(1)));
    replacements_.handle_answer(rank, fields);
    final_save_.handle_answer(rank, fields);
    if (listener_ != nullptr) listener_->on_message(rank, fields);
  }
}

// ---- replacements -------------------------------------------------------------------------------

/// Makes the new process of a lost rank a member, and lets all ranks continue.
void ProgramRun::complete_join() {
  const std::size_t rank = replacements_.rank();
  const std::uint64_t step = replacements_.step();
  silent_.erase(rank);
  contained_.erase(rank);
  ranks_[rank] = replacements_.claim_process(monotonic_s());
  announce_epoch(Reaction::new_epoch);
  if (listener_ != nullptr) listener_->on_joined(rank, step);
  replacements_.resume_members();
}

// ---- ranks that end -----------------------------------------------------------------------------

/// Asks the other members whether they have the results that the rank has.
void ProgramRun::ask_to_leave(std::size_t rank, const Fields& fields) {
  Fields question = message_of(MessageKind::confirm, {std::to_string(rank)});
  question.insert(question.end(), fields.begin() + 1, fields.end());
  const std::vector<std::size_t> others = book_.attached_members(rank);
  leavers_[rank] = {others.begin(), others.end()};
  for (const std::size_t other : others) send_message(other, question);
  confirm_leaver(rank, rank);
}

void ProgramRun::confirm_leaver(std::size_t leaver, std::size_t by) {
  const auto found = leavers_.find(leaver);
  if (found == leavers_.end()) return;
  found->second.erase(by);
  if (!found->second.empty()) return;
  leavers_.erase(found);
  send_message(leaver, message_of(MessageKind::left));
  announce_epoch(book_.record_left(leaver));
  forget_in_leavers(leaver);
}

/// No leaver waits any longer for a rank that has ended or left.
void ProgramRun::forget_in_leavers(std::size_t rank) {
  std::vector<std::size_t> waiting;
  for (const auto& [leaver, others] : leavers_) waiting.push_back(leaver);
  for (const std::size_t leaver : waiting) confirm_leaver(leaver, rank);
}

/// Records the end of a rank's process, and tells the user about a loss.
Reaction ProgramRun::record_end(std::size_t rank, const ExitStatus& status) {
  std::string cause = ranks_[rank].description(status);
  if (silent_.count(rank) > 0) cause = "no heartbeat: stopped or hung, then killed";
  if (const auto found = contained_.find(rank); found != contained_.end()) {
    cause = fmt::format("ended with its replica: no {} without the lost rank", found->second);
  }
  const bool was_member = !book_.has_left(rank);
  const Reaction reaction = book_.record_exit(rank, status.code, cause, monotonic_s());
  if (book_.is_lost(rank) && was_member && !ends_) {
    const char* const next = reaction == Reaction::end_run ? "are ended" : "go on";
    settings_.print_line(fmt::format("rank {} lost ({}), {} of {} ranks {}", rank, cause,
                                     book_.members().size(), settings_.ranks, next));
    if (listener_ != nullptr) listener_->on_loss(rank);
  } else if (silent_.count(rank) > 0 && !ends_) {
    settings_.print_line(fmt::format("rank {} ended ({}), no other rank works", rank, cause));
  }
  replacements_.remove_member(rank);
  final_save_.remove_member(rank);
  leavers_.erase(rank);
  return reaction;
}

void ProgramRun::reap_ranks() {
  std::vector<std::size_t> ended;
  bool announces = false;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (book_.has_ended(rank) || !ranks_[rank].has_ended()) continue;
    if (ranks_[rank].is_open) read_rank(rank);
    ranks_[rank].signal(SIGKILL);  // the processes that the rank has started
    const std::optional<ExitStatus> status = ranks_[rank].exit_status();
    if (!status) continue;
    const Reaction reaction = record_end(rank, *status);
    ended.push_back(rank);
    announces = announces || reaction == Reaction::new_epoch;
    if (reaction == Reaction::end_run) {
      plain_code_ = status->code;
      end_ranks(SIGTERM, kTermGrace_s);
    }
  }
  if (announces) announce_epoch(Reaction::new_epoch);
  for (const std::size_t rank : ended) forget_in_leavers(rank);
}

// ---- epochs -------------------------------------------------------------------------------------

void ProgramRun::announce_epoch(Reaction reaction, bool is_reset) {
  if (reaction != Reaction::new_epoch || ends_) return;
  book_.begin_epoch(is_reset);
  for (const std::size_t rank : book_.attached_members(settings_.ranks)) tell_epoch(rank);
}

void ProgramRun::tell_epoch(std::size_t rank) {
  ProgramEpoch epoch = book_.program_epoch();
  epoch.members = book_.members();
  send_message(rank, message_of(epoch));
}

/// Handles all that depends on the time: heartbeats, cuts, signals, the end of patience.
void ProgramRun::watch_time() {
  // Heartbeats that arrived while this process was busy, as with the start of another one, count.
  for (const std::size_t rank : book_.silent_ranks(monotonic_s())) {
    if (ranks_[rank].is_open) read_rank(rank);
  }
  const double now = monotonic_s();
  for (const std::size_t rank : book_.silent_ranks(now)) {
    if (silent_.insert(rank).second) ranks_[rank].signal(SIGKILL);
  }
  if (book_.is_cut_due(now)) {
    settings_.print_line(
        fmt::format("an operation failed without a loss, all ranks connect again: "
                    "{}",
                    problem_.substr(0, problem_.find('\n'))));
    announce_epoch(Reaction::new_epoch, true);
  }
  if (const int number = settings_.signal(); number != 0) {
    if (signal_ != 0) kill_at_s_ = now;
    signal_ = number;
    if (kill_at_s_ == 0) end_ranks(number, kSignalGrace_s);
  }
  if (!ends_ && !replacements_.has_process()) {
    final_save_.begin_save(book_.attached_members(settings_.ranks));
  }
  if (const std::optional<bool> is_saved = final_save_.drain_result(); is_saved && !ends_) {
    settings_.print_line(fmt::format("an operator stops the run: the snapshot of step {} {}",
                                     final_save_.step(),
                                     *is_saved ? "is complete" : "failed, so the program goes on"));
    if (*is_saved) end_ranks(signal_ = SIGTERM, kSignalGrace_s);
  }
  if (kill_at_s_ > 0 && now >= kill_at_s_) {
    kill_at_s_ = 0;
    for (RankProcess& rank : ranks_) rank.signal(SIGKILL);
  }
}

void ProgramRun::end_ranks(int number, double grace_s) {
  if (!ends_) kill_at_s_ = monotonic_s() + grace_s;
  ends_ = true;
  book_.record_ending();
  for (RankProcess& rank : ranks_) rank.signal(number);
}

/// Ends the ranks of a group that cannot carry an operation through a loss. They are lost, too; the
/// run ends if no other rank is left.
void ProgramRun::refuse_operation(const std::string& operation,
                                  const std::vector<std::size_t>& group) {
  if (!refused_.empty() || ends_) return;
  const std::set<std::size_t> affected(group.begin(), group.end());
  const std::vector<std::size_t> members = book_.members();
  const bool leaves_others = std::any_of(members.begin(), members.end(), [&](std::size_t rank) {
    return affected.count(rank) == 0 && contained_.count(rank) == 0;
  });
  if (leaves_others) {
    for (const std::size_t rank : members) {
      if (affected.count(rank) == 0 || !contained_.emplace(rank, operation).second) continue;
      ranks_[rank].signal(SIGKILL);
    }
    return;
  }
  refused_ = operation;
  end_ranks(SIGTERM, kTermGrace_s);
}

}  // namespace orrery::live
