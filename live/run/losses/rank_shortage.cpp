#include "live/run/losses/rank_shortage.hpp"

#include <fmt/format.h>

#include "core/units.hpp"

namespace orrery::live {
namespace {

// Time for a decision about the loss, and for a replacement to join.
constexpr Nanos kUndecided = kNanosPerSecond, kJoining = 10 * kNanosPerSecond;

}  // namespace

std::optional<std::string> RankShortage::find_warning(const RankCount& ranks, bool pending,
                                                      const std::string& cause, Nanos now) {
  if (ranks.missing() == 0) {
    since_.reset();
    if (!warned_) return {};
    warned_.reset();
    return fmt::format("the job has all {} ranks again", ranks.wanted);
  }
  if (!since_ || ranks.working != working_) since_ = now;
  working_ = ranks.working;
  if (warned_ == working_ || now - *since_ < (pending ? kJoining : kUndecided)) return {};
  warned_ = working_;
  return fmt::format(
      "the job has {} of {} ranks ({}): {}; if it ends so, the exit code is 6", working_,
      ranks.wanted, cause.empty() ? "cause not known" : cause,
      pending ? fmt::format("no replacement has joined within {:g} s", to_seconds(now - *since_))
              : "no replacement is pending");
}

std::optional<std::string> RankShortage::record_end(const RankCount& ranks, bool pending,
                                                    Nanos now) {
  const bool joining = pending && (!since_ || now - *since_ < kJoining);
  at_end_ = ranks.working;
  missing_at_end_ = joining ? 0 : ranks.missing();
  if (missing_at_end_ == 0) return {};
  return fmt::format("the run ends with {} of {} ranks", ranks.working, ranks.wanted);
}

void RankShortage::fill(Report& report) const {
  if (!at_end_) return;
  report.set_ranks_at_end(*at_end_);
  report.set_ranks_missing(missing_at_end_);
}

}  // namespace orrery::live
