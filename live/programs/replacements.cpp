#include "live/programs/replacements.hpp"

#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "live/group/messages.hpp"

namespace orrery::live {

Replacements::Replacements(const ProgramSettings& settings, RunBook& book, std::string store_path,
                           std::string state_path, JoinPlan::Send send)
    : settings_(settings),
      book_(book),
      store_path_(std::move(store_path)),
      state_path_(std::move(state_path)),
      send_(std::move(send)) {}

void Replacements::record_state(bool is_whole) {
  const bool is_news = !book_.has_state() && settings_.replacements > 0;
  book_.record_state(is_whole);
  if (!is_news) return;
  settings_.print_line(is_whole ? "tier T2: a lost rank is replaced between two steps"
                                : "no tier T2: the program's state is sharded, and no other rank "
                                  "has the part of a lost one");
}

void Replacements::add_waiting(std::vector<pollfd>& waiting) const {
  if (current_) live::add_waiting(waiting, current_->process);
}

bool Replacements::read_messages(double now_s) {
  if (!current_ || !current_->process.is_open) return false;
  bool has_joined = false;
  const std::string problem =
      live::read_messages(current_->process, [this, now_s, &has_joined](const Fields& fields) {
        current_->last_beat_s = now_s;
        has_joined = handle_message(fields) || has_joined;
      });
  if (!problem.empty()) {
    settings_.print_line(fmt::format("the new process of rank {} sent a message that is none: {}",
                                     current_->rank, problem));
  }
  return has_joined;
}

/// Returns true if the process has loaded the state.
bool Replacements::handle_message(const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  if (kind == MessageKind::hello) {
    current_->is_attached = true;
    book_.record_start(current_->rank, current_->process.is_warm,
                       monotonic_s() - current_->process.started_s);
    send_fields(current_->rank, message_of(ProgramEpoch{.number = book_.epoch(),
                                                        .members = {current_->rank},
                                                        .reset = book_.epoch(),
                                                        .changed = {}}));
  } else if (kind == MessageKind::ready) {
    current_->is_ready = true;
  } else if (kind == MessageKind::plain || kind == MessageKind::refuse ||
             kind == MessageKind::problem) {
    settings_.print_line(fmt::format("the new process of rank {} cannot join: {}", current_->rank,
                                     fields.at(kind == MessageKind::problem ? 2 : 1)));
    kill_process();
  }
  return kind == MessageKind::joined && plan_ && plan_->is_given();
}

void Replacements::send_fields(std::size_t rank, const Fields& fields) {
  if (!current_ || current_->rank != rank) return send_(rank, fields);
  send_frame(current_->process.channel(), fields);
}

void Replacements::handle_answer(std::size_t member, const Fields& fields) {
  if (plan_) plan_->handle_answer(member, fields);
}

void Replacements::remove_member(std::size_t member) {
  if (plan_) plan_->remove_member(member);
}

void Replacements::watch_process(double now_s, bool ends) {
  if (!current_) {
    if (!ends) start_process(now_s);
    return;
  }
  const bool is_silent = now_s - current_->last_beat_s > settings_.heartbeat_limit_s;
  const bool can_join = !ends && book_.can_replace();
  if (!can_join || (current_->is_attached && is_silent)) kill_process();
  if (current_->process.has_ended()) return drop_process();
  if (!current_->is_ready || plan_ || !can_join) return;
  plan_.emplace(current_->rank, started_, state_path_, book_.attached_members(current_->rank),
                [this](std::size_t to, const Fields& fields) { send_fields(to, fields); });
}

void Replacements::start_process(double now_s) {
  std::vector<std::size_t> missing = book_.missing_ranks();
  if (settings_.replaces_by_order) {
    std::erase_if(missing, [this](std::size_t rank) { return ordered_.count(rank) == 0; });
  }
  if (missing.empty() || started_ == settings_.replacements || !book_.can_replace()) return;
  ++started_;
  const std::size_t rank = missing.front();
  current_.emplace(Current{rank, start_rank(settings_.start, {rank, store_path_, true}), now_s,
                           false, false, false});
}

void Replacements::kill_process() {
  if (!current_) return;
  current_->is_killed = true;
  current_->process.signal(SIGKILL);
}

void Replacements::drop_process() {
  RankProcess& process = current_->process;
  process.signal(SIGKILL);  // the processes that it has started
  const std::optional<ExitStatus> status = process.exit_status();
  if (!status) return;
  if (!current_->is_killed) {
    settings_.print_line(fmt::format("the new process of rank {} ended before it joined ({})",
                                     current_->rank, status->description()));
  }
  current_.reset();
  if (plan_) plan_->resume_members(false);
  plan_.reset();
}

RankProcess Replacements::claim_process(double now_s) {
  absent_s_ = book_.record_joined(current_->rank, now_s);
  ordered_.erase(current_->rank);
  RankProcess process = std::move(current_->process);
  current_.reset();
  return process;
}

void Replacements::resume_members() {
  plan_->resume_members(true);
  settings_.print_line(fmt::format(
      "rank {} replaced after step {}, {:.1f} s after its loss, {} of {} ranks go on",
      plan_->rank(), plan_->step(), absent_s_, book_.members().size(), settings_.ranks));
  plan_.reset();
}

}  // namespace orrery::live
