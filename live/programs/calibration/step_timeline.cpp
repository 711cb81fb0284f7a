#include "live/programs/calibration/step_timeline.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::live {
namespace {

using Kind = StepMark::Kind;
using Part = ProfiledPart::Kind;

bool is_inside(const ProfiledPart& part, double at_s) {
  return part.begin_s <= at_s && at_s <= part.end_s;
}

/// Adds a wait behind the newest operation of each group that a backward pass issues and nobody
/// awaits.
void add_backward_waits(const RankProfile& profile, const ProfiledPart& backward,
                        std::vector<StepMark>& marks) {
  std::map<std::vector<std::uint32_t>, std::size_t> newest;
  double last_s = 0;
  for (std::size_t i = 0; i < profile.operations.size(); ++i) {
    const ProfiledOperation& operation = profile.operations[i];
    if (!is_inside(backward, operation.issued_s)) continue;
    last_s = std::max(last_s, operation.issued_s);
    if (operation.awaited_s == 0) newest[operation.members] = i;
  }
  for (const auto& [members, operation] : newest) {
    marks.push_back({Kind::wait, last_s, operation});
  }
}

/// Returns all marks but the ends of steps, by instant.
std::vector<StepMark> marks_of(const RankProfile& profile) {
  std::vector<StepMark> marks;
  for (std::size_t i = 0; i < profile.operations.size(); ++i) {
    const ProfiledOperation& operation = profile.operations[i];
    marks.push_back({Kind::issue, operation.issued_s, i});
    if (operation.awaited_s > 0) marks.push_back({Kind::wait, operation.awaited_s, i});
  }
  for (const ProfiledPart& part : profile.parts) {
    if (part.kind == Part::input) {
      marks.push_back({Kind::input_begin, part.begin_s});
      marks.push_back({Kind::input_end, part.end_s});
    } else if (part.kind == Part::backward) {
      marks.push_back({Kind::backward_begin, part.begin_s});
      add_backward_waits(profile, part, marks);
      marks.push_back({Kind::backward_end, part.end_s});
    }
  }
  std::stable_sort(marks.begin(), marks.end(), [](const StepMark& a, const StepMark& b) {
    return a.at_s < b.at_s || (a.at_s == b.at_s && a.kind < b.kind);
  });
  return marks;
}

std::vector<double> ends_of(const RankProfile& profile) {
  std::vector<double> ends;
  bool has_backward = false;
  for (const ProfiledPart& part : profile.parts) {
    if (part.kind == Part::backward) has_backward = true;
    if (part.kind != Part::update) continue;
    if (has_backward || ends.empty()) {
      ends.push_back(part.end_s);
    } else {
      ends.back() = part.end_s;
    }
    has_backward = false;
  }
  return ends;
}

}  // namespace

std::vector<StepTimeline> timelines_of(const RankProfile& profile) {
  const std::vector<double> ends = ends_of(profile);
  const std::vector<StepMark> marks = marks_of(profile);
  std::vector<StepTimeline> steps;
  auto next = marks.begin();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    StepTimeline step{i == 0 ? 0 : ends[i - 1], {}};
    for (; next != marks.end() && next->at_s <= ends[i]; ++next) step.marks.push_back(*next);
    step.marks.push_back({Kind::step_end, ends[i]});
    if (i > 0) steps.push_back(std::move(step));
  }
  return steps;
}

std::string shape_of(const RankProfile& profile, const StepTimeline& step) {
  std::string text;
  for (const StepMark& mark : step.marks) {
    text += fmt::format("{}", static_cast<int>(mark.kind));
    if (mark.kind != Kind::issue && mark.kind != Kind::wait) continue;
    const ProfiledOperation& operation = profile.operations[mark.operation];
    text += fmt::format("{} {}:{};", operation.name, operation.bytes,
                        fmt::join(operation.members, ","));
  }
  return text;
}

std::vector<double> compute_before(const RankProfile& profile, const StepTimeline& step) {
  std::vector<double> seconds;
  double free_s = step.begin_s;  // the rank computes from this instant on
  for (const StepMark& mark : step.marks) {
    seconds.push_back(std::max(0.0, mark.at_s - free_s));
    free_s = std::max(free_s, mark.at_s);
    if (mark.kind == Kind::wait) {
      free_s = std::max(free_s, profile.operations[mark.operation].ended_s);
    }
  }
  return seconds;
}

}  // namespace orrery::live
