#include "sim/replay/job_course.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

TEST(JobCourse, AtItsRecordedPaceAJobTakesItsDuration) {
  JobCourse course;
  course.start(10, 0);
  EXPECT_EQ(course.due(100), 110);
  course.stop(50);
  EXPECT_EQ(course.served_time(), 40);
  course.start(70, 0);
  EXPECT_EQ(course.due(100), 130);
  EXPECT_EQ(course.lost_time(), 0);
}

TEST(JobCourse, ItGetsOnAtItsPace) {
  JobCourse course;
  course.start(0, 0);
  course.set_pace(0, 0.5);
  EXPECT_EQ(course.due(100), 200);
  course.set_pace(100, 1);
  EXPECT_EQ(course.due(100), 150);
  course.set_pace(110, 0.25);
  EXPECT_EQ(course.due(100), 110 + 160);
}

TEST(JobCourse, GoingOnTakesItsDelayFirst) {
  JobCourse course;
  course.start(0, 30);
  EXPECT_EQ(course.due(100), 130);
  course.stop(20);  // stopped during the delay
  EXPECT_EQ(course.done(), 0);
  EXPECT_EQ(course.lost_time(), 20);
  course.start(50, 30);
  EXPECT_EQ(course.due(100), 180);
  course.stop(180);
  EXPECT_EQ(course.done(), 100);
  EXPECT_EQ(course.served_time(), 150);
  EXPECT_EQ(course.lost_time(), 50);
}

TEST(JobCourse, WorkThatIsDoneAgainIsLost) {
  JobCourse course;
  course.start(0, 0);
  course.set_pace(0, 0.5);
  course.stop(100);
  course.fall_back(20);
  EXPECT_EQ(course.done(), 20);
  EXPECT_EQ(course.lost_time(), 60) << "thirty of its duration, at half the pace";
  course.fall_back(70);
  EXPECT_EQ(course.done(), 20) << "nobody keeps more than he had";
}

}  // namespace
}  // namespace orrery::sim
