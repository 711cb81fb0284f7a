#include "policies/queues/reservation_windows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Nanos kS = kNanosPerSecond;

JobSpec job_of(const std::string& user, const std::string& vc, Nanos estimate) {
  JobSpec job;
  job.user = user;
  job.pool = vc;
  job.estimate = estimate;
  return job;
}

TEST(ReservationWindows, CloseTheirNodesToJobsThatWouldRunWithin) {
  const ReservationWindows windows(
      {{.begin = 100 * kS, .end = 200 * kS, .nodes = {3, 1}, .users = {"ann"}, .vcs = {"v"}}}, 4,
      8);
  const JobSpec other = job_of("bob", "w", 10 * kS);
  EXPECT_THAT(windows.closed_nodes(other, 90 * kS), IsEmpty());
  EXPECT_THAT(windows.closed_nodes(other, 91 * kS), ElementsAre(1, 3));
  EXPECT_THAT(windows.closed_nodes(other, 199 * kS), ElementsAre(1, 3));
  EXPECT_THAT(windows.closed_nodes(other, 200 * kS), IsEmpty());
  EXPECT_THAT(windows.closed_nodes(job_of("bob", "w", 0), 100 * kS), ElementsAre(1, 3))
      << "a job of unknown duration runs for at least a second";
  EXPECT_THAT(windows.closed_nodes(job_of("ann", "w", 10 * kS), 150 * kS), IsEmpty());
  EXPECT_THAT(windows.closed_nodes(job_of("bob", "v", 10 * kS), 150 * kS), IsEmpty());
  EXPECT_THAT(windows.own_nodes(job_of("bob", "v", 10 * kS), 100 * kS), ElementsAre(1, 3));
  EXPECT_THAT(windows.own_nodes(job_of("bob", "v", 10 * kS), 99 * kS), IsEmpty());
  EXPECT_THAT(windows.own_nodes(job_of("bob", "v", 10 * kS), 200 * kS), IsEmpty());
  EXPECT_THAT(windows.own_nodes(other, 150 * kS), IsEmpty());
}

TEST(ReservationWindows, EdgesAreThoseAfterTheInstant) {
  const ReservationWindows windows({{.begin = 50 * kS, .end = 60 * kS, .nodes = {0}},
                                    {.begin = 10 * kS, .end = 90 * kS, .nodes = {1}}},
                                   2, 1);
  EXPECT_EQ(windows.next_edge(0), 10 * kS);
  EXPECT_EQ(windows.next_edge(10 * kS), 50 * kS);
  EXPECT_EQ(windows.next_edge(50 * kS), 60 * kS);
  EXPECT_EQ(windows.next_edge(60 * kS), 90 * kS);
  EXPECT_EQ(windows.next_edge(90 * kS), kNever);
  EXPECT_THAT(windows.ends_after(60 * kS), ElementsAre(90 * kS));
}

TEST(ReservationWindows, GpusAreTheLastNodesThatNoOtherReservationHas) {
  const ReservationWindows windows(
      {{.begin = 0, .end = 10 * kS, .gpus = 9},              // 2 nodes beside node 3: 2 and 1
       {.begin = 5 * kS, .end = 20 * kS, .nodes = {3}},
       {.begin = 10 * kS, .end = 20 * kS, .gpus = 8}},       // 1 node beside node 3
      4, 8);
  const JobSpec job = job_of("", "", kS);
  EXPECT_THAT(windows.closed_nodes(job, 0), ElementsAre(1, 2));
  EXPECT_THAT(windows.closed_nodes(job, 5 * kS), ElementsAre(1, 2, 3));
  EXPECT_THAT(windows.closed_nodes(job, 10 * kS), ElementsAre(2, 3));
}

TEST(ReservationWindows, WrongReservationsAreRefused) {
  const auto refused = [](ReservationWindow window) {
    EXPECT_THROW(ReservationWindows({std::move(window)}, 2, 8), Error);
  };
  refused({.begin = kS, .end = kS, .nodes = {0}});
  refused({.begin = 0, .end = kS});
  refused({.begin = 0, .end = kS, .nodes = {0}, .gpus = 8});
  refused({.begin = 0, .end = kS, .nodes = {2}});
  refused({.begin = 0, .end = kS, .gpus = 17});
}

}  // namespace
}  // namespace orrery
