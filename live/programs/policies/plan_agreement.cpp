#include "live/programs/policies/plan_agreement.hpp"

#include <iterator>
#include <utility>

#include "live/group/messages.hpp"

namespace orrery::live {

std::uint64_t PlanAgreement::propose_plan(const std::string& kind, std::uint64_t step,
                                          const std::string& text,
                                          const std::vector<std::size_t>& members) {
  const std::uint64_t number = ++numbers_;
  open_[number] = {kind, text, step, members, {members.begin(), members.end()}, false};
  const Fields message =
      message_of(MessageKind::propose, {std::to_string(number), std::to_string(step), text});
  for (const std::size_t member : members) send_(member, message);
  return number;
}

bool PlanAgreement::handle_message(std::size_t rank, const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  if (kind != MessageKind::accepted && kind != MessageKind::late) return false;
  const std::uint64_t number = std::stoull(fields.at(1));
  const std::uint64_t begun = std::stoull(fields.at(2));
  const auto found = open_.find(number);
  if (found == open_.end() || found->second.is_answered) return true;
  Plan& plan = found->second;
  plan.pending.erase(rank);
  if (kind == MessageKind::late) {
    answers_.push_back({number, false, begun});
    finish_plan(number, MessageKind::withdraw);
  } else if (plan.pending.empty()) {
    plan.is_answered = true;
    answers_.push_back({number, true, 0});
  }
  return true;
}

std::vector<PlanAgreement::Answer> PlanAgreement::drain_answers() {
  return std::exchange(answers_, {});
}

void PlanAgreement::finish_plan(std::uint64_t number, MessageKind how) {
  const auto plan = open_.extract(number);
  if (plan.empty()) return;
  for (const std::size_t member : plan.mapped().members) {
    send_(member, message_of(how, {std::to_string(number)}));
  }
}

void PlanAgreement::commit_plan(std::uint64_t number) {
  const auto found = open_.find(number);
  if (found == open_.end()) return;
  auto& of_kind = committed_[found->second.kind];
  of_kind[found->second.step] = found->second.text;
  finish_plan(number, MessageKind::commit);
}

void PlanAgreement::withdraw_plan(std::uint64_t number) {
  finish_plan(number, MessageKind::withdraw);
}

std::vector<std::uint64_t> PlanAgreement::withdraw_all() {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, plan] : open_) numbers.push_back(number);
  for (const std::uint64_t number : numbers) finish_plan(number, MessageKind::withdraw);
  answers_.clear();
  return numbers;
}

void PlanAgreement::begin_rank(std::size_t rank, std::uint64_t step) {
  for (auto& [kind, plans] : committed_) {
    const auto after = plans.upper_bound(step);
    if (after != plans.begin()) plans.erase(plans.begin(), std::prev(after));
    for (const auto& [first, text] : plans) {
      send_(rank, message_of(MessageKind::plan, {std::to_string(first), text}));
    }
  }
  send_(rank, message_of(MessageKind::begin));
}

}  // namespace orrery::live
