#include "live/programs/join_plan.hpp"

#include <algorithm>
#include <utility>

#include "live/group/messages.hpp"

namespace orrery::live {

JoinPlan::JoinPlan(std::size_t rank, std::uint64_t number, std::string path,
                   const std::vector<std::size_t>& members, Send send)
    : rank_(rank),
      number_(std::to_string(number)),
      path_(std::move(path)),
      send_(std::move(send)),
      members_(members.begin(), members.end()),
      pending_(members_) {
  for (const std::size_t member : members_) {
    send_(member, message_of(MessageKind::halt, {number_}));
  }
}

void JoinPlan::handle_answer(std::size_t member, const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  if (kind != MessageKind::count && kind != MessageKind::met && kind != MessageKind::given) return;
  if (fields.at(1) != number_ || pending_.count(member) == 0) return;
  if (kind == MessageKind::count && stage_ == Stage::counting) {
    most_steps_ = std::max<std::uint64_t>(most_steps_, std::stoull(fields.at(2)));
  } else if (kind == MessageKind::met && stage_ == Stage::meeting) {
    for (std::size_t at = 2; at + 1 < fields.size(); at += 2) counts_[fields[at]] = fields[at + 1];
  } else if (kind != MessageKind::given || stage_ != Stage::giving) {
    return;
  }
  pending_.erase(member);
  if (pending_.empty()) advance_stage();
}

void JoinPlan::remove_member(std::size_t member) {
  if (members_.erase(member) == 0) return;
  const bool was_pending = pending_.erase(member) > 0;
  if (members_.empty() || !was_pending || !pending_.empty()) return;
  if (stage_ == Stage::giving) {
    ask_for_state();
  } else {
    advance_stage();
  }
}

void JoinPlan::advance_stage() {
  switch (stage_) {
    case Stage::counting:
      stage_ = Stage::meeting;
      step_ = most_steps_ + 1;
      pending_ = members_;
      for (const std::size_t member : members_) {
        send_(member, message_of(MessageKind::meet, {number_, std::to_string(step_)}));
      }
      return;
    case Stage::meeting: return ask_for_state();
    case Stage::giving: {
      stage_ = Stage::loading;
      Fields message = message_of(MessageKind::join, {path_});
      for (const auto& [group, count] : counts_) {
        message.push_back(group);
        message.push_back(count);
      }
      return send_(rank_, message);
    }
    case Stage::loading: return;
  }
}

void JoinPlan::ask_for_state() {
  stage_ = Stage::giving;
  pending_ = {*members_.begin()};
  send_(*members_.begin(), message_of(MessageKind::give, {number_, path_}));
}

void JoinPlan::resume_members(bool has_joined) {
  const Fields message =
      message_of(MessageKind::resume,
                 has_joined ? Fields{std::string(name_of(MessageKind::joined))} : Fields{});
  for (const std::size_t member : members_) send_(member, message);
  if (has_joined) send_(rank_, message);
}

}  // namespace orrery::live
