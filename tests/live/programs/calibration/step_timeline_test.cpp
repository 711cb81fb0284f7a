#include "live/programs/calibration/step_timeline.hpp"

#include <numeric>

#include <gtest/gtest.h>

#include "tests/live/programs/calibration/profiles.hpp"

namespace orrery::live {
namespace {

using Kind = StepMark::Kind;

std::vector<Kind> kinds_of(const StepTimeline& step) {
  std::vector<Kind> kinds;
  for (const StepMark& mark : step.marks) kinds.push_back(mark.kind);
  return kinds;
}

TEST(StepTimeline, TheFirstStepIsLeftOutAndDistributedDataParallelWaitsForItsNewestOperation) {
  const RankProfile profile = testing::sample_rank(0, 3, 2);
  const std::vector<StepTimeline> steps = timelines_of(profile);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(
      kinds_of(steps[0]),
      (std::vector<Kind>{Kind::input_begin, Kind::input_end, Kind::backward_begin, Kind::issue,
                         Kind::issue, Kind::wait, Kind::backward_end, Kind::step_end}));
  EXPECT_EQ(shape_of(profile, steps[0]), shape_of(profile, steps[1]));
  EXPECT_NEAR(steps[0].duration_s(), 28e-3, 1e-9);
}

TEST(StepTimeline, WaitingIsNoComputation) {
  const RankProfile profile = testing::sample_rank(0, 2, 2);
  const StepTimeline step = timelines_of(profile).front();
  const std::vector<double> seconds = compute_before(profile, step);
  const std::vector<double> expected{1e-3, 2e-3, 14e-3, 3e-3, 3e-3, 0, 0, 1e-3};
  ASSERT_EQ(seconds.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(seconds[i], expected[i], 1e-9);
}

TEST(StepTimeline, AnOperationThatIsAwaitedAtOnceIsNoOperationOfTheBackwardPass) {
  RankProfile profile = testing::sample_rank(0, 2, 2);
  ProfiledOperation& second = profile.operations.back();
  second.awaited_s = second.issued_s + 1e-4;
  const StepTimeline step = timelines_of(profile).front();
  std::size_t waits = 0;
  for (const StepMark& mark : step.marks) waits += mark.kind == Kind::wait ? 1 : 0;
  EXPECT_EQ(waits, 2u);  // for the first, which nobody awaits, and for the second
}

TEST(StepTimeline, TwoUpdatesWithoutABackwardPassBetweenThemAreOneStep) {
  RankProfile profile = testing::sample_rank(0, 4, 2);
  std::vector<ProfiledPart> parts;
  for (const ProfiledPart& part : profile.parts) {
    parts.push_back(part);
    if (part.kind != ProfiledPart::Kind::update) continue;
    parts.push_back({part.kind, part.end_s, part.end_s + 1e-4});
  }
  profile.parts = parts;
  EXPECT_EQ(timelines_of(profile).size(), 3u);
}

}  // namespace
}  // namespace orrery::live
