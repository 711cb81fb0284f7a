#include "live/programs/run_book.hpp"

#include <algorithm>

namespace orrery::live {
namespace {

constexpr double kProblemGrace_s = 1;
constexpr std::size_t kStepsPerRank = 4096;

}  // namespace

RunBook::RunBook(std::size_t ranks, double heartbeat_limit_s, double now_s)
    : ranks_(ranks), heartbeat_limit_s_(heartbeat_limit_s) {
  for (Rank& rank : ranks_) rank.last_beat_s = rank.begin_s = now_s;
  epoch_.members = members();
  epoch_.changed.resize(ranks);
}

void RunBook::take_over(const RunAccount& account) {
  epoch_ = account.epoch;
  epoch_.changed.resize(ranks_.size());
  losses_ = account.losses;
  time_ = account.time;
  newest_snapshot_ = account.newest_snapshot;
  for (const auto& [rank, code] : account.ended) {
    Rank& own = ranks_.at(rank);
    own.is_attached = own.has_ended = true;
    own.code = code;
  }
}

RunAccount RunBook::run_account() const {
  RunAccount account{.epoch = epoch_,
                     .ended = {},
                     .losses = losses_,
                     .time = time_,
                     .newest_snapshot = newest_snapshot_};
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].has_ended) account.ended[rank] = ranks_[rank].code;
  }
  return account;
}

void RunBook::record_taken(std::size_t rank, std::uint64_t steps, double now_s) {
  record_hello(rank, now_s);
  ranks_[rank].steps = steps;
  ranks_[rank].is_taken = true;
}

void RunBook::record_hello(std::size_t rank, double now_s) {
  ranks_[rank].is_attached = true;
  ranks_[rank].last_beat_s = now_s;
}

void RunBook::record_beat(std::size_t rank, double now_s) { ranks_[rank].last_beat_s = now_s; }

void RunBook::record_plain(std::size_t, const std::string& reason) {
  if (plain_reason_.empty()) plain_reason_ = reason;
}

void RunBook::record_settled(std::size_t rank, std::uint64_t epoch) {
  ranks_[rank].settled = epoch;
  ranks_[rank].has_settled = true;
}

void RunBook::record_problem(std::uint64_t epoch, double now_s) {
  if (epoch == epoch_.number && !problem_s_) problem_s_ = now_s;
}

void RunBook::record_step(std::size_t rank, std::uint64_t step, double end_s, double input_s) {
  Rank& own = ranks_[rank];
  const double begin_s = own.last_step_s, input_before_s = own.input_s;
  // A process that has joined a trainer's loop goes on with the others' number.
  const bool is_first = step <= 1 || own.steps == 0;
  own.last_step_s = end_s;
  own.input_s = input_s;
  own.steps = step;
  if (is_first || own.is_taken) {
    own.first_step_s = end_s;
    own.first_input_s = input_s;
    if (!own.is_taken) time_.starting += end_s - own.begin_s;
    own.is_taken = false;
    return;
  }
  const double duration_s = end_s - begin_s;
  const double beyond_s = std::max(0.0, duration_s - median_step_s().value_or(duration_s));
  bool interrupted = false;
  for (ProgramLoss& loss : losses_) {
    if (loss.time_s < begin_s || loss.time_s > end_s) continue;
    interrupted = true;
    const double lost_s = std::max(0.0, duration_s - median_step_s().value_or(0));
    loss.lost_s = std::max(loss.lost_s.value_or(0), lost_s);
  }
  const double own_input_s = std::min(input_s - input_before_s, duration_s);
  const double lost_s = interrupted ? std::min(beyond_s, duration_s - own_input_s) : 0;
  time_.input += own_input_s;
  time_.recovery += lost_s;
  time_.training += duration_s - own_input_s - lost_s;
  if (interrupted) return;
  durations_.push_back(duration_s);
  if (durations_.size() > kStepsPerRank * ranks_.size()) durations_.pop_front();
}

double RunBook::record_joined(std::size_t rank, double now_s) {
  double absent_s = 0;
  for (ProgramLoss& loss : losses_) {
    if (loss.rank != rank || loss.replaced_s) continue;
    absent_s = now_s - loss.time_s;
    loss.replaced_s = absent_s;
  }
  ranks_[rank] = Rank{};
  ranks_[rank].begin_s = now_s;
  record_hello(rank, now_s);
  return absent_s;
}

void RunBook::record_state(bool is_whole) {
  is_whole_ = is_whole && (is_whole_ || !has_state_);
  has_state_ = true;
}

Reaction RunBook::react_to_absence(std::size_t rank) const {
  const std::vector<std::size_t> others = attached_members(rank);
  const bool settled = std::all_of(others.begin(), others.end(), [this](std::size_t other) {
    return ranks_[other].has_settled && ranks_[other].settled == epoch_.number;
  });
  return settled && !problem_s_ ? Reaction::none : Reaction::new_epoch;
}

Reaction RunBook::record_left(std::size_t rank) {
  ranks_[rank].has_left = true;
  return react_to_absence(rank);
}

Reaction RunBook::record_exit(std::size_t rank, int code, const std::string& description,
                              double now_s) {
  Rank& own = ranks_[rank];
  own.has_ended = true;
  own.code = code;
  if (running() == 0 || own.has_left || is_ending_) return Reaction::none;
  if (code == 0) return own.is_attached ? react_to_absence(rank) : Reaction::none;
  losses_.push_back({rank, now_s, description, std::nullopt, std::nullopt});
  if (!plain_reason_.empty()) return Reaction::end_run;
  return Reaction::new_epoch;
}

void RunBook::begin_epoch(bool is_reset) {
  epoch_ = next_epoch(epoch_, members(), is_reset);
  problem_s_.reset();
}

bool RunBook::is_cut_due(double now_s) const {
  return problem_s_ && now_s - *problem_s_ >= kProblemGrace_s;
}

std::vector<std::size_t> RunBook::silent_ranks(double now_s, double limit_s) const {
  std::vector<std::size_t> silent;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& own = ranks_[rank];
    if (!own.is_attached || own.has_ended || own.has_left) continue;
    if (now_s - own.last_beat_s > limit_s) silent.push_back(rank);
  }
  return silent;
}

std::vector<std::size_t> RunBook::members() const {
  std::vector<std::size_t> found;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].has_ended && !ranks_[rank].has_left) found.push_back(rank);
  }
  return found;
}

std::vector<std::size_t> RunBook::attached_members(std::size_t without) const {
  std::vector<std::size_t> found;
  for (const std::size_t rank : members()) {
    if (rank != without && ranks_[rank].is_attached) found.push_back(rank);
  }
  return found;
}

std::size_t RunBook::running() const {
  return static_cast<std::size_t>(std::count_if(ranks_.begin(), ranks_.end(),
                                                [](const Rank& rank) { return !rank.has_ended; }));
}

std::size_t RunBook::attached() const {
  return static_cast<std::size_t>(std::count_if(ranks_.begin(), ranks_.end(),
                                                [](const Rank& rank) { return rank.is_attached; }));
}

bool RunBook::is_lost(std::size_t rank) const {
  return std::any_of(losses_.begin(), losses_.end(), [rank](const ProgramLoss& loss) {
    return loss.rank == rank && !loss.replaced_s;
  });
}

std::vector<std::size_t> RunBook::missing_ranks() const {
  std::vector<std::size_t> found;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (is_lost(rank)) found.push_back(rank);
  }
  return found;
}

std::uint64_t RunBook::dealt_examples() const {
  std::uint64_t sum = 0;
  for (const Rank& rank : ranks_) sum += rank.dealt;
  return sum;
}

bool RunBook::can_replace() const {
  const bool has_absent = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.has_left || (rank.has_ended && rank.code == 0);
  });
  const std::size_t attached_now = attached_members(ranks_.size()).size();
  return is_whole_ && plain_reason_.empty() && !is_ending_ && !has_absent && attached_now > 0 &&
         attached_now == members().size();
}

int RunBook::exit_code() const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].code != 0 && !is_lost(rank)) return ranks_[rank].code;
  }
  return missing_ranks().empty() ? 0 : kRanksMissing;
}

std::uint64_t RunBook::steps() const {
  std::uint64_t most = 0;
  for (const Rank& rank : ranks_) most = std::max(most, rank.steps);
  return most;
}

std::optional<double> RunBook::median_step_s() const {
  if (durations_.empty()) return std::nullopt;
  std::vector<double> sorted(durations_.begin(), durations_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double RunBook::sent_bytes() const {
  double sum = 0;
  for (const Rank& rank : ranks_) sum += rank.sent_bytes;
  return sum;
}

std::optional<double> RunBook::input_share() const {
  double input_s = 0, steps_s = 0;
  for (const Rank& rank : ranks_) {
    input_s += rank.input_s - rank.first_input_s;
    steps_s += rank.last_step_s - rank.first_step_s;
  }
  if (steps_s <= 0) return std::nullopt;
  return input_s / steps_s;
}

}  // namespace orrery::live
