#include "policies/record/standing_book.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery {
namespace {

std::string text_of(const std::vector<StandingBook::Line>& lines, std::size_t at, Nanos until) {
  if (at >= lines.size() || lines[at].at > until) return "nothing more happens";
  const StandingBook::Line& line = lines[at];
  const std::string when = fmt::format("at {} s job {}", to_seconds(line.at), line.job.value);
  if (line.what == StandingBook::Line::What::stopped) return when + " leaves its GPUs";
  if (line.what == StandingBook::Line::What::done) return when + " ends";
  std::vector<std::string> runs;
  for (const GpuRuns::Run& run : line.gpus.runs()) {
    runs.push_back(run.count == 1 ? fmt::format("{}", run.first)
                                  : fmt::format("{}-{}", run.first, run.first + run.count - 1));
  }
  return fmt::format("{} starts on GPUs {}", when, fmt::join(runs, ", "));
}

}  // namespace

void StandingBook::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  for (const Event& event : seen.events) {
    if (const auto* started = std::get_if<JobStarted>(&event)) {
      lines_.push_back({seen.now, Line::What::started, started->job, started->where.gpus});
    } else if (const auto* stopped = std::get_if<JobStopped>(&event)) {
      lines_.push_back({seen.now, Line::What::stopped, stopped->job});
    } else if (const auto* done = std::get_if<JobDone>(&event)) {
      lines_.push_back({seen.now, Line::What::done, done->job});
    }
  }
  inner_.observe(context, seen, decisions);
}

std::string first_difference(const std::vector<StandingBook::Line>& a,
                             const std::vector<StandingBook::Line>& b, Nanos until) {
  const auto within = [until](const std::vector<StandingBook::Line>& lines) {
    return static_cast<std::size_t>(std::count_if(
        lines.begin(), lines.end(), [until](const auto& line) { return line.at <= until; }));
  };
  const std::size_t count = std::max(within(a), within(b));
  for (std::size_t i = 0; i < count; ++i) {
    const bool equal = i < within(a) && i < within(b) && a[i] == b[i];
    if (!equal) return fmt::format("{}; {}", text_of(a, i, until), text_of(b, i, until));
  }
  return "";
}

}  // namespace orrery
