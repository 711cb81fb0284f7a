#include "live/programs/policies/program_plans.hpp"

#include <utility>

namespace orrery::live {
namespace {

constexpr std::uint64_t kLead = 2;  ///< the next step may begin before the message arrives
constexpr std::uint64_t kMostLead = 64;

}  // namespace

void ProgramPlans::propose_change(Change change, std::uint64_t begun, const TrainingRanks& ranks) {
  if (ranks.members.empty()) {
    waiting_.push_back(std::move(change));
    return;
  }
  const bool has_step = change.decision && change.decision->at_step > 0;
  const std::uint64_t step = has_step ? change.decision->at_step : begun + change.lead;
  const auto number = agreement_.propose_plan(change.kind, step, change.text, ranks.members);
  open_.emplace(number, std::move(change));
}

void ProgramPlans::propose_soon(const std::string& kind, const std::string& text,
                                const TrainingRanks& ranks) {
  std::erase_if(waiting_, [&kind](const Change& change) { return change.kind == kind; });
  for (auto& [number, change] : open_) {
    if (change.kind != kind || change.decision) continue;
    agreement_.withdraw_plan(number);
  }
  std::erase_if(open_, [&kind](const auto& each) {
    return each.second.kind == kind && !each.second.decision;
  });
  propose_change({kind, text, kLead, std::nullopt}, ranks.most_steps, ranks);
}

void ProgramPlans::propose_decision(const Decision& decision, const std::string& kind,
                                    const std::string& text, const TrainingRanks& ranks) {
  propose_change({kind, text, kLead, decision}, ranks.most_steps, ranks);
}

std::vector<ProgramPlans::Answered> ProgramPlans::settle_answers(const TrainingRanks& ranks) {
  std::vector<Answered> answered = std::exchange(answered_, {});
  for (const PlanAgreement::Answer& answer : agreement_.drain_answers()) {
    auto found = open_.extract(answer.number);
    if (found.empty()) continue;
    Change& change = found.mapped();
    if (change.decision && (answer.is_accepted || change.decision->at_step > 0)) {
      answered.push_back(
          {std::move(*change.decision), answer.number, answer.is_accepted, answer.late_step});
    } else if (answer.is_accepted) {
      agreement_.commit_plan(answer.number);
    } else {
      change.lead = std::min(2 * change.lead, kMostLead);
      propose_change(std::move(change), std::max(answer.late_step, ranks.most_steps), ranks);
    }
  }
  if (ranks.members.empty()) return answered;
  for (Change& change : std::exchange(waiting_, {})) {
    propose_change(std::move(change), ranks.most_steps, ranks);
  }
  return answered;
}

std::vector<Decision> ProgramPlans::withdraw_all() {
  agreement_.withdraw_all();
  std::vector<Decision> decisions;
  for (auto& [number, change] : std::exchange(open_, {})) {
    if (change.decision) {
      decisions.push_back(std::move(*change.decision));
    } else {
      waiting_.push_back(std::move(change));
    }
  }
  return decisions;
}

}  // namespace orrery::live
