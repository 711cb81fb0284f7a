#include "policies/seam/decision.hpp"

#include <array>
#include <iterator>

namespace orrery {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Action>> kActionNames{
    "Assign", "Configure", "Save"};
constexpr std::array<std::string_view, std::variant_size_v<Setting>> kSettingNames{
    "Shares", "CollectiveTable", "CodecRules", "CheckpointPlan", "OnLoss", "Batch", "Delay",
    "PowerCap", "Prefetch"};

}  // namespace

JobId job_of(const Action& action) {
  return std::visit([](const auto& what) { return what.job; }, action);
}

std::string_view action_name(const Action& action) { return kActionNames[action.index()]; }
std::string_view setting_name(const Setting& setting) { return kSettingNames[setting.index()]; }
std::span<const std::string_view> action_names() { return kActionNames; }
std::span<const std::string_view> setting_names() { return kSettingNames; }

bool waits_for_step(const Action& action) {
  const auto* configure = std::get_if<Configure>(&action);
  return configure != nullptr &&
         std::visit([](const auto& s) { return changes_steps<std::decay_t<decltype(s)>>; },
                    configure->what);
}

void DecisionList::append_list(DecisionList&& other) {
  std::uint32_t highest = groups_;
  for (Decision& decision : other.items_) {
    if (decision.group > 0) highest = std::max(highest, decision.group += groups_);
  }
  groups_ = highest;
  std::move(other.items_.begin(), other.items_.end(), std::back_inserter(items_));
  wakes_.insert(wakes_.end(), other.wakes_.begin(), other.wakes_.end());
  std::move(other.notes_.begin(), other.notes_.end(), std::back_inserter(notes_));
  next_ = other.next_;
  other.items_.clear();
  other.wakes_.clear();
  other.notes_.clear();
}

}  // namespace orrery
