#include "live/group/meeting_point.hpp"

#include <stdexcept>
#include <utility>

#include "live/group/messages.hpp"

namespace orrery::live {

void MeetingPoint::handle_message(const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  std::uint64_t marked = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (kind == MessageKind::halt) {
      join_ = fields.at(1);
      meeting_step_ = 0;
      marked = marked_;
    } else if (kind == MessageKind::meet) {
      if (fields.at(1) == join_) meeting_step_ = std::stoull(fields.at(2));
    } else {
      // A rank that is not at the meeting gets no instruction but its end.
      const bool waits = join_.empty() || (meeting_step_ > 0 && marked_ >= meeting_step_);
      if (waits) instructions_.push_back(fields);
      if (kind == MessageKind::resume) {
        join_.clear();
        meeting_step_ = 0;
      }
    }
    changed_.notify_all();
  }
  if (kind == MessageKind::halt) {
    send_(message_of(MessageKind::count, {fields.at(1), std::to_string(marked)}));
  }
}

void MeetingPoint::end_connection() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++ends_;
  join_.clear();
  meeting_step_ = 0;
  changed_.notify_all();
}

void MeetingPoint::begin_connection() {
  const std::lock_guard<std::mutex> lock(mutex_);
  instructions_.clear();
}

bool MeetingPoint::mark_step(std::uint64_t step) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (join_.empty()) {
    marked_ = step;
    return false;
  }
  changed_.wait(lock, [this] { return join_.empty() || meeting_step_ > 0; });
  marked_ = step;
  if (join_.empty() || step < meeting_step_) return false;
  reached_ = join_;
  reached_ends_ = ends_;
  return true;
}

void MeetingPoint::announce_arrival(const Fields& counts) {
  Fields message = message_of(MessageKind::met);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    message.push_back(reached_);
  }
  message.insert(message.end(), counts.begin(), counts.end());
  send_(message);
}

Fields MeetingPoint::wait_for_instruction() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !instructions_.empty() || ends_ > reached_ends_; });
  if (instructions_.empty()) {
    if (!reached_.empty()) return message_of(MessageKind::resume);
    throw std::runtime_error(
        "expected to take the place of a lost rank, but `orrery run` has ended");
  }
  Fields next = std::move(instructions_.front());
  instructions_.pop_front();
  return next;
}

}  // namespace orrery::live
