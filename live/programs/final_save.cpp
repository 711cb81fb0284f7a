#include "live/programs/final_save.hpp"

#include <algorithm>

#include "live/group/messages.hpp"

namespace orrery::live {

void FinalSave::order_save() {
  if (is_ordered()) return;
  stage_ = Stage::ordered;
  number_ = "save-" + std::to_string(++orders_);
  most_steps_ = step_ = 0;
  is_complete_ = true;
}

void FinalSave::begin_save(const std::vector<std::size_t>& members) {
  if (stage_ != Stage::ordered || members.empty()) return;
  stage_ = Stage::counting;
  members_ = {members.begin(), members.end()};
  pending_ = members_;
  for (const std::size_t member : members_) {
    send_(member, message_of(MessageKind::halt, {number_}));
  }
}

void FinalSave::handle_answer(std::size_t member, const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  if (pending_.count(member) == 0) return;
  if (kind == MessageKind::count && stage_ == Stage::counting && fields.at(1) == number_) {
    most_steps_ = std::max<std::uint64_t>(most_steps_, std::stoull(fields.at(2)));
  } else if (kind == MessageKind::met && stage_ == Stage::meeting && fields.at(1) == number_) {
    // The member waits at the meeting.
  } else if ((kind == MessageKind::snapshot || kind == MessageKind::unsaved) &&
             stage_ == Stage::saving) {
    is_complete_ = is_complete_ && kind == MessageKind::snapshot;
  } else {
    return;
  }
  pending_.erase(member);
  if (pending_.empty()) advance_stage();
}

void FinalSave::remove_member(std::size_t member) {
  if (members_.erase(member) == 0) return;
  const bool was_pending = pending_.erase(member) > 0;
  if (was_pending && pending_.empty()) advance_stage();
}

void FinalSave::advance_stage() {
  pending_ = members_;
  if (members_.empty()) {
    is_complete_ = false;
    stage_ = Stage::over;
  } else if (stage_ == Stage::counting) {
    stage_ = Stage::meeting;
    step_ = most_steps_ + 1;
    for (const std::size_t member : members_) {
      send_(member, message_of(MessageKind::meet, {number_, std::to_string(step_)}));
    }
  } else if (stage_ == Stage::meeting) {
    stage_ = Stage::saving;
    for (const std::size_t member : members_) send_(member, message_of(MessageKind::save));
  } else {
    stage_ = Stage::over;
  }
}

std::optional<bool> FinalSave::drain_result() {
  if (stage_ != Stage::over) return {};
  stage_ = Stage::none;
  for (const std::size_t member : members_) send_(member, message_of(MessageKind::resume));
  return is_complete_;
}

}  // namespace orrery::live
