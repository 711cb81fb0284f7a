#include "live/group/step_plans.hpp"

#include <algorithm>

#include "live/group/messages.hpp"

namespace orrery::live {

bool StepPlans::handle_message(const Fields& fields) {
  const std::optional<MessageKind> kind = kind_of(fields);
  Fields answer;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (kind == MessageKind::begin) {
      has_begun_ = true;
    } else if (kind == MessageKind::plan) {
      planned_.emplace(std::stoull(fields.at(1)), fields.at(2));
    } else if (kind == MessageKind::propose) {
      const std::uint64_t step = std::stoull(fields.at(2));
      const bool is_late = begun_ && *begun_ >= step;
      if (!is_late) open_[std::stoull(fields.at(1))] = {step, fields.at(3)};
      answer = message_of(is_late ? MessageKind::late : MessageKind::accepted,
                          {fields.at(1), std::to_string(begun_.value_or(0))});
    } else if (kind == MessageKind::commit || kind == MessageKind::withdraw) {
      auto proposal = open_.extract(std::stoull(fields.at(1)));
      if (!proposal.empty() && kind == MessageKind::commit) {
        planned_.emplace(proposal.mapped().step, std::move(proposal.mapped().text));
      }
    } else {
      return false;
    }
    changed_.notify_all();
  }
  if (!answer.empty()) send_(answer);
  return true;
}

void StepPlans::end_connection() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_gone_ = true;
  open_.clear();
  changed_.notify_all();
}

void StepPlans::begin_connection() {
  const std::lock_guard<std::mutex> lock(mutex_);
  has_begun_ = true;
  is_gone_ = false;
}

void StepPlans::wait_until_begun() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return has_begun_ || is_gone_; });
}

bool StepPlans::is_undecided(std::uint64_t step) const {
  return std::any_of(open_.begin(), open_.end(),
                     [step](const auto& each) { return each.second.step <= step; });
}

std::vector<std::string> StepPlans::begin_step(std::uint64_t step) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this, step] { return !is_undecided(step); });
  begun_ = step;
  const auto end = planned_.upper_bound(step);
  std::vector<std::string> texts;
  for (auto at = planned_.begin(); at != end; ++at) texts.push_back(std::move(at->second));
  planned_.erase(planned_.begin(), end);
  return texts;
}

}  // namespace orrery::live
