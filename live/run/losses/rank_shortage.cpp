#include "live/run/losses/rank_shortage.hpp"

#include <fmt/format.h>

#include "core/units.hpp"

namespace orrery::live {
namespace {

// Time for a decision about the loss, and for a replacement to join.
constexpr Nanos kUndecided = kNanosPerSecond, kJoining = 10 * kNanosPerSecond;

}  // namespace

std::optional<std::string> RankShortage::find_warning(std::size_t working, bool pending,
                                                      const std::string& cause, Nanos now) {
  if (missing(working) == 0) {
    since_.reset();
    if (!warned_) return {};
    warned_.reset();
    return fmt::format("the job has all {} ranks again", wanted_);
  }
  if (!since_ || working != working_) since_ = now;
  working_ = working;
  if (warned_ == working || now - *since_ < (pending ? kJoining : kUndecided)) return {};
  warned_ = working;
  return fmt::format(
      "the job has {} of {} ranks ({}): {}; if it ends so, the exit code is 6", working, wanted_,
      cause.empty() ? "cause not known" : cause,
      pending ? fmt::format("no replacement has joined within {:g} s", to_seconds(now - *since_))
              : "no replacement is pending");
}

std::optional<std::string> RankShortage::record_end(std::size_t working, bool pending, Nanos now) {
  const bool joining = pending && (!since_ || now - *since_ < kJoining);
  at_end_ = working;
  missing_at_end_ = joining ? 0 : missing(working);
  if (missing_at_end_ == 0) return {};
  return fmt::format("the run ends with {} of {} ranks", working, wanted_);
}

void RankShortage::fill(Report& report) const {
  if (!at_end_) return;
  report.set_ranks_at_end(*at_end_);
  report.set_ranks_missing(missing_at_end_);
}

}  // namespace orrery::live
